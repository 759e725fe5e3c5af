"""Which run is on which card: what it declared, what the driver names, and nothing that is only likely."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from remote_agent import atomic, layout, processes
from remote_agent.protocol import Gpu, GpuReport, Identity, RunInfo, Spec, State, encode
from remote_agent.rpc import gpu
from tests.support.programs import fake_nvidia_smi
from tests.support.rpc import ask
from tests.support.waiting import wait_for


def cards(count: int) -> GpuReport:
    return GpuReport("ok", [Gpu(n, "X", uuid=f"GPU-{n}") for n in range(count)])


def tree(name: str, pids: set[int], gpus: list[int] | None = None) -> gpu.Tree:
    return gpu.Tree(RunInfo(name, "p", "id", "running", f"/data/{name}", gpus=gpus), pids)


def assigned(report: GpuReport, live: list[gpu.Tree], evidence: gpu.Evidence) -> list[list[str]]:
    gpu.assign(report, live, evidence)
    return [card.runs for card in report.gpus]


def test_declared_cards_count_whatever_the_driver_names() -> None:
    evidence = gpu.Evidence({}, True, lambda pid: False)
    assert assigned(cards(3), [tree("a", {1}, [0, 2]), tree("b", {2}, [2])], evidence) == [["a"], [], ["a", "b"]]


def test_the_drivers_pids_in_the_machines_own_namespace() -> None:
    report = cards(2)
    evidence = gpu.Evidence({"GPU-1": {11, 12}, "GPU-0": {99}}, True, lambda pid: False)
    assert assigned(report, [tree("a", {10, 11, 12}), tree("cpu-only", {20})], evidence) == [[], ["a"]]
    assert report.foreign_processes  # 99 is nobody's of ours


def test_only_our_own_processes_are_no_foreign_ones() -> None:
    report = cards(1)
    assigned(report, [tree("a", {11})], gpu.Evidence({"GPU-0": {11}}, True, lambda pid: False))
    assert not report.foreign_processes


def test_in_a_container_a_number_alone_proves_nothing() -> None:
    """The machine's pid 11 happens to be the number of a process of ours here, which holds no card."""
    report = cards(2)
    evidence = gpu.Evidence({"GPU-0": {11}, "GPU-1": {21}}, False, lambda pid: pid == 21)
    assert assigned(report, [tree("a", {11}), tree("b", {21})], evidence) == [[], ["b"]]
    assert report.foreign_processes


def test_on_a_box_of_one_card_holding_it_open_is_enough() -> None:
    """Containers mostly hide the driver's pids altogether."""
    evidence = gpu.Evidence({}, False, lambda pid: pid == 12)
    assert assigned(cards(1), [tree("a", {11, 12}), tree("cpu-only", {20})], evidence) == [["a"]]
    assert assigned(cards(2), [tree("a", {11, 12})], evidence) == [[], []]


def test_a_process_that_has_no_card_open_holds_none() -> None:
    assert not gpu.holds_card(os.getpid())
    assert not gpu.holds_card(2**22 + 1)


def test_the_operation_names_the_run_whose_process_computes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real process tree under a supervisor's record; the driver's text is recorded."""
    monkeypatch.setattr(gpu, "_in_first_namespace", lambda: True)
    supervisor = subprocess.Popen(["/bin/sh", "-c", "/bin/sleep 60 & wait"], start_new_session=True)
    try:
        child = wait_for(lambda: processes.descendants(supervisor.pid), what="the training has started")[0]
        write_run(tmp_path, "exp", supervisor.pid)
        write_run(tmp_path, "other", None)
        fake_nvidia_smi(tmp_path / "bin", "0, X, 100, 50, 9, 40, 60, GPU-a\n1, X, 100, 0, 0, 40, 60, GPU-b\n",
                        apps=f"GPU-b, {child}\n")
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))
        answer = ask("gpu", gpu.gpu, data_dir=str(tmp_path))
    finally:
        os.killpg(supervisor.pid, 9)
        supervisor.wait()
    assert [card["runs"] for card in answer["gpus"]] == [[], ["exp"]]
    assert (answer["state"], answer["foreign_processes"]) == ("ok", False)


def test_a_data_folder_that_is_not_well_hides_no_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_nvidia_smi(tmp_path, "0, X, 100, 50, 9, 40, 60, GPU-a\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    report = ask("gpu", gpu.gpu, data_dir="not/absolute")
    assert [card["runs"] for card in report["gpus"]] == [[]]
    assert report["runs_unknown"] == {"code": "data-dir-relative", "params": {"path": "not/absolute"}}


def write_run(data: Path, name: str, supervisor: int | None) -> None:
    run = layout.Data(str(data)).run(name)
    os.makedirs(run.launch(1).path)
    state = State("running", 1, 1, "detached", None, processes.box_id(),
                  supervisor=processes.ref(supervisor) if supervisor else None, launched_at="2020-01-01T00:00:00+00:00")
    atomic.write_json(run.identity, encode(Identity(name, "p", "id", "2020-01-01T00:00:00+00:00")))
    atomic.write_json(run.launch(1).spec, encode(Spec(name, "p", "id", "true", "/")))
    atomic.write_json(run.state, encode(state))
