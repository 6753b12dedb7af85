"""From training to a bundle: the whole way, on four colours."""

import json
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest
import torch

import tiny_cifar
from headtail_models.bundle import Bundle, open_bundle, write_bundle
from headtail_models.bundle.manifest import Exit
from headtail_models.data.cifar10 import Cifar10
from headtail_models.exits.cascade import Cascade
from headtail_models.exits.errors import CalibrationError
from headtail_models.head_chain import GateSettings, HeadChain
from headtail_models.nets.resnet_cifar import ResNetCifar, gaussian_bits
from headtail_models.task import task_for
from headtail_models.training.cifar import CifarJob
from headtail_models.training.errors import CheckpointError, RecipeError
from headtail_models.training.folding import folded
from headtail_models.training.recipe import parse_recipe, read_recipe
from headtail_models.training.trainer import Outcome, train
from headtail_models.zoo import resnet_cifar
from headtail_models.zoo.own_bundle import assemble
from headtail_models.zoo.resnet_cifar_release import release


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cifar")
    tiny_cifar.write_pictures(folder)
    return folder


@pytest.fixture(scope="module")
def outcome(place: Path) -> Outcome:
    job = CifarJob(tiny_cifar.recipe(), place, place / "cache")
    return train(job, tiny_cifar.recipe(), place / "trained")


@pytest.fixture(scope="module")
def bundle(place: Path, outcome: Outcome) -> Bundle:
    recipe = tiny_cifar.recipe()
    release(recipe, outcome.folder, place, place / "released", cache=place / "cache")
    (place / "source").mkdir()
    manifest = assemble(place / "released", place / "source")
    return open_bundle(write_bundle(place / "source", manifest, place / "bundle"))


def test_it_learns(outcome: Outcome) -> None:
    assert outcome.best["last"] > 0.7
    assert outcome.best["exit0"] > 0.5


def test_the_loss_has_all_its_parts(place: Path) -> None:
    job = CifarJob(tiny_cifar.recipe(), place, place / "cache")
    random = np.random.default_rng(0)
    loss = job.loss(job.draw(random, 6), 0.0)
    assert set(loss.parts) == {"exit0", "exit1", "last", "bits"}
    loss.total.backward()  # type: ignore[no-untyped-call]
    groups = job.groups()
    numbers = [id(parameter) for group in groups.values() for parameter in group]
    assert sorted(numbers) == sorted(id(parameter) for parameter in job.network.parameters())
    for name, group in groups.items():
        assert all(parameter.grad is not None for parameter in group), name


def test_pictures_are_moved_and_turned_over(place: Path) -> None:
    job = CifarJob(tiny_cifar.recipe(), place, place / "cache")
    first, labels = job.draw(np.random.default_rng(1), 200)
    assert first.shape == (200, 3, 32, 32)
    assert len(np.unique(first.numpy().reshape(200, -1), axis=0)) > 72
    again, same = job.draw(np.random.default_rng(1), 200)
    assert torch.equal(first, again)
    assert torch.equal(labels, same)


def test_unknown_keys_are_refused(place: Path) -> None:
    text = 'name="x"\njob="resnet-cifar10"\n[options]\nwidth=3\n'
    stage = '[[stage]]\nname="a"\nsteps=1\nbatch=1\nrate=0.1\nsettings={ exit7 = 1 }\n'
    with pytest.raises(RecipeError, match="width"):
        CifarJob(parse_recipe(text + stage, name="x"), place, place / "cache")
    job = CifarJob(tiny_cifar.recipe(), place, place / "cache")
    bad = parse_recipe('name="x"\njob="y"\n' + stage, name="x")
    with pytest.raises(RecipeError, match="exit7"):
        job.begin(bad.stage[0])


def test_the_built_in_recipe_is_of_this_job() -> None:
    recipe = read_recipe("resnet-cifar10")
    assert recipe.job == "resnet-cifar10"
    assert sum(stage.steps for stage in recipe.stage) > 1000


def test_bits_of_latents() -> None:
    draw = torch.Generator().manual_seed(0)
    latents = 4 * torch.randn(200, 3, 4, 4, generator=draw)
    # A Gaussian of deviation 4 at a step of 1: 0.5 log2(2 pi e 16) bits, 48 times.
    expected = 48 * 0.5 * np.log2(2 * np.pi * np.e * 16)
    assert float(gaussian_bits(latents)) == pytest.approx(expected, rel=0.02)
    assert float(gaussian_bits(torch.zeros(5, 3, 4, 4))) == pytest.approx(48 * 0.2546, rel=0.01)


def test_folding_changes_nothing() -> None:
    torch.manual_seed(0)
    network = ResNetCifar(stem=8, widths=(8, 8, 8), latents=4, branch=8)
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_()  # type: ignore[union-attr]
            module.running_var.uniform_(0.5, 2)  # type: ignore[union-attr]
            torch.nn.init.uniform_(module.weight, 0.5, 2)
    network.eval()
    merged = folded(network)
    assert not any(isinstance(one, torch.nn.BatchNorm2d) for one in merged.modules())
    picture = torch.randn(3, 3, 32, 32)
    with torch.no_grad():
        for before, after in zip(network.answers(picture), merged.answers(picture), strict=True):
            assert torch.allclose(before, after, atol=1e-4)


def test_the_manifest(bundle: Bundle) -> None:
    cut = bundle.cut("latents")
    assert bundle.manifest.labels == tiny_cifar.CLASSES
    assert [gate.name for gate in cut.gates] == ["exit0", "exit1"]
    assert cut.tensor.shape == (4, 4, 4)
    assert cut.codecs == ("rans", "rans-coarse", "q8+zstd", "raw")
    for gate in cut.gates:
        assert isinstance(gate, Exit)
        assert [point.name for point in gate.points] == ["drop-2", "drop-1", "drop-half", "drop-0"]
        assert gate.default_point == "drop-1"
    assert [one.codec for one in cut.measured] == ["rans", "rans-coarse"]
    parts = sum(stage.macs for stage in (cut.head, cut.tail)) + sum(
        gate.trunk.macs for gate in cut.gates if gate.trunk is not None
    )
    assert parts == bundle.manifest.full.macs


def test_segments_in_a_row_are_the_whole(bundle: Bundle) -> None:
    cut, full = bundle.cut("latents"), bundle.open_stage(bundle.full())
    task = task_for(bundle.manifest)
    picture = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    image, _ = task.prepare(picture)
    chain = HeadChain(cut, bundle.open_stage, settings=GateSettings(exit_point="off"))
    tensor = chain.run(image).tensor
    assert tensor is not None
    tail = bundle.open_stage(cut.tail).run({"latents": tensor})["logits"]
    assert np.abs(tail - full.run({"image": image})["logits"]).max() < 1e-4


def test_what_is_skipped_is_not_computed(bundle: Bundle) -> None:
    cut = bundle.cut("latents")
    opened: list[object] = []

    def opening(entry: object) -> object:
        opened.append(entry)
        return bundle.open_stage(entry)  # type: ignore[arg-type]

    chain = HeadChain(cut, opening, settings=GateSettings(exit_point="drop-2"))  # type: ignore[arg-type]
    images = np.random.default_rng(0).normal(size=(40, 1, 3, 32, 32)).astype(np.float32)
    runs = [chain.run(image) for image in images]
    trunks = [gate.trunk.macs for gate in cut.gates if gate.trunk is not None]
    for run in runs:
        # A gate that its operating point closes has no verdict: its branch is not run either.
        reached = len(cut.gates)
        if run.tensor is None:
            reached = 1 + [gate.name for gate in cut.gates].index(run.verdicts[-1].gate.name)
        spent = sum(trunks[:reached]) + sum(one.gate.branch.macs for one in run.verdicts)
        assert run.macs == spent + (cut.head.macs if run.tensor is not None else 0)
    assert cut.tail not in opened


def test_the_coders_carry_every_latent_exactly(bundle: Bundle, place: Path) -> None:
    cut = bundle.cut("latents")
    cascade = Cascade.of(cut, bundle.open_stage)
    test = Cifar10(place / "cifar10-jpeg.tar.xz", cache=place / "cache").split("test")
    images = np.concatenate([task_for(bundle.manifest).prepare(p)[0] for p in test.pictures])
    found = cascade.logits(images)
    assert [logits.shape for logits in (*found.exits, found.end)] == [(40, 4)] * 3
    codec = bundle.codecs("latents").new("rans")
    for tensor in found.tensors[:5]:
        back = codec.decode(codec.encode(tensor[np.newaxis]), (1, 4, 4, 4))
        assert np.abs(back[0] - tensor).max() <= 0.5
    accuracy = float((found.end.argmax(axis=1) == test.labels).mean())
    assert bundle.manifest.full_value == pytest.approx(accuracy, abs=1e-4)


def test_weights_are_stored_in_half_and_normalisations_folded(place: Path, bundle: Bundle) -> None:
    model = onnx.load(place / "released" / "full.onnx")
    kinds = {node.op_type for node in model.graph.node}
    assert "BatchNormalization" not in kinds
    large = [one for one in model.graph.initializer if np.prod(one.dims) >= 64]
    assert large
    assert all(one.data_type == onnx.TensorProto.FLOAT16 for one in large)


def test_the_record_can_be_read_by_people(place: Path, bundle: Bundle) -> None:
    record = json.loads((place / "released" / "bundle.json").read_text())
    assert record["cuts"][0]["gates"][0]["criterion"] == "entropy"
    assert record["metric_split"] == "40 pictures of CIFAR-10 test"


def test_the_released_files_make_a_bundle(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    manifest = resnet_cifar.make({}, tmp_path / "source")
    bundle = open_bundle(write_bundle(tmp_path / "source", manifest, tmp_path / "bundle"))
    assert sum(entry.size_bytes for entry in bundle.manifest.files) < 4e6
    assert len(bundle.manifest.labels) == 10
    cut = bundle.cut("latents")
    image = np.zeros((8, 3, 32, 32), dtype=np.float32)
    found = Cascade.of(cut, bundle.open_stage).logits(image)
    full = bundle.open_stage(bundle.full()).run({"image": image})["logits"]
    assert np.abs(found.end - full).max() < 1e-4
    assert len(bundle.codecs("latents").new("rans").encode(found.tensors[:1])) < 200


def test_a_cut_without_exits_has_no_cascade(bundle: Bundle) -> None:
    cut = msgspec.structs.replace(bundle.cut("latents"), gates=())
    with pytest.raises(CalibrationError, match="0 exits"):
        Cascade.of(cut, bundle.open_stage)


def test_a_release_needs_a_training(place: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"best\.pt"):
        release(tiny_cifar.recipe(), tmp_path, place, tmp_path / "out", cache=place / "cache")
