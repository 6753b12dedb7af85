import argparse

from headtail.bench import seal


def test_every_step_has_a_figure_for_every_library() -> None:
    parser = argparse.ArgumentParser()
    seal.add_arguments(parser)
    report = seal.run(parser.parse_args(["--rounds", "2"]))
    for library in ("pycryptodome", "cryptography"):
        assert report.figures[f"agree_us_{library}"] > 0
        for step in ("seal", "open", "exchange"):
            for size in ("1k", "30k", "100k", "500k"):
                assert report.figures[f"{step}_us_{size}_{library}"] > 0
    assert report.settings["libraries"] == "pycryptodome, cryptography"
