"""Cards for people and as JSON: unknown is n/a or null, never 0; each broken state has words and a next step."""

from __future__ import annotations

import io

import pytest
from rich.console import Console, RenderableType

from cloudrun.app.gpu import HostGpus, look_at_gpus
from cloudrun.cli.render.gpu import gpu_document, gpu_view, starving_words
from cloudrun.cli.render.units import age, memory, size
from remote_agent.protocol import GPU_STATES, Gpu, GpuReport, encode

MIB = 1 << 20
CARDS = [
    Gpu(0, "NVIDIA GeForce RTX 4090", 97.0, 18321 * MIB, 24564 * MIB, 71.0, 402.15, "GPU-0", ["exp_resnet50"]),
    Gpu(1, "NVIDIA A100-SXM4-80GB", None, None, None, 47.0, None, "GPU-1"),
    Gpu(2, "GRID T4-8Q", 0.0, 0, 8192 * MIB, None, 0.0),
]


def shown(renderable: RenderableType, width: int = 80) -> str:
    """As it goes into a pipe."""
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=False).print(renderable)
    return out.getvalue()


def test_a_line_per_card_that_fits_80_columns() -> None:
    lines = shown(gpu_view(HostGpus("box", GpuReport("ok", CARDS)))).splitlines()
    assert [" ".join(line.split()) for line in lines] == [
        "GPU NAME USE MEMORY TEMP POWER RUNS",
        "0 NVIDIA GeForce RTX 4090 97 % 17.9 / 24.0 GiB 71 °C 402 W exp_resnet50",
        "1 NVIDIA A100-SXM4-80GB n/a n/a 47 °C n/a -",
        "2 GRID T4-8Q 0 % 0 B / 8 GiB n/a 0 W -",
    ]
    assert max(map(len, lines)) <= 80


def test_runs_that_cannot_be_known_are_said_and_hide_no_card() -> None:
    params = {"path": "/d/runs", "mount": "/d", "type": "nfs4", "source": "10.0.0.2:/v", "deadline_s": 5}
    why = {"code": "disk-hangs", "params": params}
    answer = HostGpus("box", GpuReport("ok", CARDS[1:2], runs_unknown=why))
    text = " ".join(shown(gpu_view(answer)).split())
    assert "NVIDIA A100" in text
    assert "whose runs are on the cards is not known: /d/runs cannot be reached: the disk mounted on /d (nfs4" in text
    (error,) = gpu_document(answer)["errors"]
    assert (error["code"], error["exit_code"]) == ("disk-hangs", 16)
    assert "cloudrun host set box --data-dir" in error["hint"]


def test_the_json_is_frozen() -> None:
    assert gpu_document(HostGpus("box", GpuReport("ok", CARDS[:2]))) == {
        "gpus": [
            {"host": "box", "index": 0, "name": "NVIDIA GeForce RTX 4090", "utilization_percent": 97.0,
             "memory_used_bytes": 18321 * MIB, "memory_total_bytes": 24564 * MIB, "temperature_c": 71.0, "power_w": 402.15,
             "runs": ["exp_resnet50"]},
            {"host": "box", "index": 1, "name": "NVIDIA A100-SXM4-80GB", "utilization_percent": None,
             "memory_used_bytes": None, "memory_total_bytes": None, "temperature_c": 47.0, "power_w": None, "runs": []},
        ],
        "state": "ok", "errors": [],
    }


@pytest.mark.parametrize("state", [state for state in GPU_STATES if state != "ok"])
def test_every_state_says_what_is_wrong_and_what_to_do(state: str) -> None:
    answer = HostGpus("box", GpuReport(state, detail="what nvidia-smi said"))
    words = " ".join(shown(gpu_view(answer), width=200).split())
    assert "try: " in words
    assert "{" not in words
    document = gpu_document(answer)
    assert (document["gpus"], document["state"]) == ([], state)
    if state in ("not-installed", "no-device"):
        assert not answer.broken
        assert document["errors"] == []
    else:
        assert "what nvidia-smi said" in words
        (error,) = document["errors"]
        assert set(error) == {"host", "code", "message", "hint", "exit_code"}
        assert error["message"] in words


def test_a_lost_card_beside_one_that_works() -> None:
    words = shown(gpu_view(HostGpus("box", GpuReport("gpu-lost", CARDS[:1], "GPU is lost"))))
    assert "RTX 4090" in words
    assert "a card is lost: GPU is lost" in words


@pytest.mark.parametrize(("use", "used", "total", "hinted"), [
    (3.0, 12 << 30, 24 << 30, True), (14.9, 24 << 30, 24 << 30, True), (15.0, 24 << 30, 24 << 30, False),
    (3.0, 1 << 30, 24 << 30, False), (None, 24 << 30, 24 << 30, False), (3.0, None, 24 << 30, False),
    (3.0, 12 << 30, None, False), (0.0, 0, 0, False),
])
def test_little_use_with_much_memory_points_at_the_data_loading(
    use: float | None, used: int | None, total: int | None, hinted: bool,
) -> None:
    assert ("num_workers" in starving_words(Gpu(0, "X", use, used, total))) is hinted


def test_foreign_processes_are_said_and_not_judged() -> None:
    words = shown(gpu_view(HostGpus("box", GpuReport("ok", CARDS[:1], foreign_processes=True))), width=200)
    assert "other processes" in words
    assert "other processes" not in shown(gpu_view(HostGpus("box", GpuReport("ok", CARDS[:1]))), width=200)


def test_names_are_text_and_no_markup() -> None:
    assert "[bold]X[/bold]" in shown(gpu_view(HostGpus("box", GpuReport("ok", [Gpu(0, "[bold]X[/bold]")]))))


def test_one_request_and_a_newer_agents_words_are_no_trouble() -> None:
    class Client:
        def call(self, op: str, params: dict[str, object], timeout_s: float) -> object:
            assert (op, params) == ("gpu", {"data_dir": "/data"})
            return {**encode(GpuReport("on-fire", detail="smoke")), "news": 1}

    answer = look_at_gpus(Client(), "box", "/data")  # type: ignore[arg-type]
    assert answer.broken
    assert "gpu-on-fire" in shown(gpu_view(answer))


@pytest.mark.parametrize(("value", "text"), [
    (None, "n/a"), (0, "0 B"), (999, "999 B"), (1000, "1 kB"), (1500, "1.5 kB"), (999_600, "1.0 MB"), (5 * 10**9, "5 GB"),
    (123_456_789_012, "123 GB"), (10**18, "1000 PB"),
])
def test_sizes(value: int | None, text: str) -> None:
    assert size(value) == text


def test_memory_counts_in_powers_of_two() -> None:
    assert (memory(24564 * MIB), memory(512 * MIB), memory(8 << 30), memory(None)) == ("24.0 GiB", "512 MiB", "8 GiB", "n/a")


@pytest.mark.parametrize(("seconds", "text"), [
    (None, "n/a"), (-3, "0 s"), (59.9, "59 s"), (60, "1 min"), (3599, "59 min"), (3900, "1 h 05 min"),
    (86400 * 2 + 4 * 3600, "2 d 4 h"),
])
def test_ages(seconds: float | None, text: str) -> None:
    assert age(seconds) == text
