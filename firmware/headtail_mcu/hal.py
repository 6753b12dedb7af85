"""The board behind one interface, so that the rest of the firmware runs on the unix port as well.

start_watchdog(ms)  feed()     a watchdog that can't be stopped; feeding before it starts is free
wake_reason()                  "power-on", "deep-sleep", "watchdog" or "reset"
unique_id()                    bytes that no other board of the kind has
random(n)                      bytes for keys and nonces
ticks_ms()  since(t)           a clock that wraps; milliseconds since an earlier tick
sleep_ms(ms)                   light: memory stays
deep_sleep(ms)                 does not return; only what was kept is there afterwards
keep(data)  kept()             a few bytes that survive deep sleep, b"" after power-on
"""


def open_board(state_path="kept.bin"):
    """The board that this runs on. `state_path`: where ports without such memory keep bytes."""
    try:
        import machine

        if hasattr(machine, "WDT"):
            from .hal_machine import MachineBoard

            return MachineBoard(machine, state_path)
    except ImportError:
        pass
    from .hal_unix import UnixBoard

    return UnixBoard(state_path)
