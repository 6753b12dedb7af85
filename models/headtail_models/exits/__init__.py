"""Early exits: when an answer is sure enough to stay where it was found.

On a device:    `criteria` says how sure an exit is, `policy` who leaves where.
Calibration:    `temperature`, `thresholds` for a budget of accuracy or computation, and
                `filter_threshold` for a recall, on what `cascade` computes and `answers` holds.
Measurements:   `survey` and `leak`; `timing`; `chart` draws.

Nothing but `chart` needs more than numpy and the runtime: a device imports it.
"""
