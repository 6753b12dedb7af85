"""Where engines live and who drives them.

serving           the seam to those who ask
assembly          what runs where, as an operator set it
core_loop         a sans-IO core in an asyncio loop; callers' exchanges
in_process        one engine, in a thread of this process
fleet             many, each in a process of its own
launcher          starts those: forked by a zygote, or afresh
engine_thread     does one engine's work in order
ray_launcher      the same, as actors of a `ray_cluster`: `ray_worker` asks, `ray_actor` answers

process_engine    a worker process, behind the engine's seam
worker_process    processes and the channels to them
worker, zygote    what runs in them
worker_message    what is said; `channel` and `arena` carry it
"""
