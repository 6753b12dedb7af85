"""The serving core: requests in, decisions out. It knows no clock, socket, thread or tensor.

    Request -> Job -> Task          `request`, `job`, `task`
    Scheduler.on_event(event, now) -> list[Action]
                                    `scheduler`, `events`, `actions`

    arrival -> admission -> queue -> iteration -> engine -> results -> next iteration, or the end

| module | decides |
|---|---|
| `admission` | whether a request is taken, in which variant, or when to come again |
| `budget` | how long the next iteration may take |
| `protection` | what is kept for tails that may come |
| `iteration` | which tasks it consists of |
| `tail_pass` | whether tails go by themselves |
| `fairness` | whose turn it is |
| `block_pool` | who holds which blocks of the key-value cache |
| `exit_policy` | whether an answer is good enough already |
| `cost_model` | what a piece of work will take, from what it took |

`engine` is the seam to what computes.
"""
