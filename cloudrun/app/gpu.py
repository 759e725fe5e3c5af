"""The cards of a host and the runs on them: one request to the agent."""

from __future__ import annotations

from dataclasses import dataclass

from cloudrun.agent.client import AgentClient, Question
from remote_agent import protocol

#: The box gives nvidia-smi ten seconds; the rest is the way there and back.
TIMEOUT_S = 30.0
#: States in which there is no card to speak of, and nothing is broken.
NO_CARD = ("not-installed", "no-device")


@dataclass(frozen=True)
class HostGpus:
    """What one host answered."""

    host: str
    report: protocol.GpuReport
    #: The box is this machine.
    local: bool = False

    @property
    def broken(self) -> bool:
        """Whether the driver is not well; a box without a card is well."""
        return self.report.state != "ok" and self.report.state not in NO_CARD


def question(data_dir: str | None) -> Question:
    """What `look_at_gpus` asks, to be asked ahead."""
    return Question("gpu", {"data_dir": data_dir})


def look_at_gpus(client: AgentClient, host: str, data_dir: str | None) -> HostGpus:
    """The cards as they are now. A broken driver is an answer; CloudrunError is for a box that gave none."""
    answer = client.call("gpu", question(data_dir).params, timeout_s=TIMEOUT_S)
    return HostGpus(host, protocol.decode(protocol.GpuReport, answer))
