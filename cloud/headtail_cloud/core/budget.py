"""How long the next iteration may take.

An iteration is not interrupted, so whatever comes while it runs waits for its end. The budget is
the tightest of:

    decodes     the time until the next token of a running text is due
    tails       the time until a waiting tail must be done, less the segments it still has after
                this iteration
    protection  how long tails may wait that may come at any moment, and still be accepted

What is late already does not count: it would make all the others late, too. An iteration takes
longer than estimated at times, so these are divided by the cost model's margin: what is planned
within the budget ends within that time, as a rule.
"""

from headtail_cloud.core.options import SchedulerOptions


def time_budget_s(slack_s: float, options: SchedulerOptions, *, margin: float) -> float:
    """That slack, between the options' shortest and longest."""
    return max(min(options.longest_step_s, slack_s / margin), options.shortest_budget_s)
