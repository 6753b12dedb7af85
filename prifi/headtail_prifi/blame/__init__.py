"""Who disrupted a round: accusation, reveal, verdict, evidence."""
