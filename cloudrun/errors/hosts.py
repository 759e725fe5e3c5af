"""Errors about hosts, hosts.toml and which host is meant."""

from __future__ import annotations

from cloudrun.errors.catalogue import Entry
from cloudrun.errors.exit_codes import Exit
from cloudrun.i18n import N_

_TARGETS = N_("Paste the login command from the instance's page: cloudrun host {verb} {host_name} \"ssh -p PORT USER@HOST\"")
_HOST_LS = N_("cloudrun host ls")

ENTRIES: dict[str, Entry] = {
    "no-hosts": Entry(
        Exit.CONFIG,
        N_("there is no host yet"),
        N_("cloudrun host add box \"ssh -p PORT USER@HOST\"; or, to use this machine: add --host local"),
    ),
    "which-host": Entry(
        Exit.CONFIG,
        N_("there are several hosts ({known}) and none is chosen"),
        N_("Add --host NAME, set CLOUDRUN_HOST, write host = \"NAME\" in cloudrun.toml, or: cloudrun host use NAME"),
    ),
    "no-such-host": Entry(
        Exit.CONFIG,
        N_("there is no host {name!r}{source}{near}"),
        N_("cloudrun host ls; to add it: cloudrun host add {name} \"ssh -p PORT USER@HOST\""),
    ),
    "host-exists": Entry(
        Exit.REFUSED,
        N_("there is a host {name!r} already: {target}"),
        N_("To change it: cloudrun host set {name} TARGET"),
    ),
    "host-name-missing": Entry(
        Exit.USAGE,
        N_("the host's name is missing"),
        N_("cloudrun host {verb} box \"{login}\"   (any name in place of box)"),
    ),
    "host-rm-declined": Entry(Exit.REFUSED, N_("the host {name} stays"), _HOST_LS),
    "host-name-wrong": Entry(
        Exit.USAGE,
        N_("the host's name {name!r} may not hold {character!r}"),
        N_("Letters, digits, - and _, beginning with a letter or digit: cloudrun host add box \"ssh -p PORT USER@HOST\""),
    ),
    "host-name-length": Entry(
        Exit.USAGE,
        N_("a host's name has 1 to 63 characters: {name!r}"),
        N_("cloudrun host add box \"ssh -p PORT USER@HOST\""),
    ),
    "host-backend": Entry(
        Exit.USAGE,
        N_("{backend!r} is no session backend; there are: {known}"),
        N_("Give one of these: --backend auto"),
    ),
    "hosts-file-wrong": Entry(
        Exit.CONFIG,
        N_("{path} is not right: {detail}"),
        N_("Mend the file in an editor; what each key means: cloudrun host add --help"),
    ),
    "hosts-file-unwritable": Entry(
        Exit.CONFIG,
        N_("{path} cannot be written: {detail}"),
        N_("Mend the folder's permissions, or choose another with CLOUDRUN_CONFIG_DIR."),
    ),
    "nothing-to-set": Entry(
        Exit.USAGE,
        N_("nothing was given to change of the host {name}"),
        N_("cloudrun host set {name} [TARGET] [--key FILE] [--data-dir DIR] [--backend NAME] [--python PATH] [--password-stdin]"),
    ),
    "trust-unknown": Entry(
        Exit.CONFIG,
        N_("{where!r} is neither a host's name nor the address of one"),
        _HOST_LS,
    ),
    "trust-declined": Entry(
        Exit.HOST_KEY_UNKNOWN,
        N_("the host key ({fingerprint}) was not accepted; what was known stays, and nothing was sent"),
        N_("Compare it with the instance's page; if it is the same, answer yes: cloudrun host trust {host_name}"),
    ),
    "trust-local": Entry(Exit.USAGE, N_("this machine has no host key to trust"), _HOST_LS),
    "target-empty": Entry(Exit.USAGE, N_("the target is empty"), _TARGETS),
    "target-lines": Entry(
        Exit.USAGE,
        N_("the target has more than one line; the first is {target!r}"),
        _TARGETS,
    ),
    "target-words": Entry(
        Exit.USAGE,
        N_("{target!r} is no address: {word!r} is too much"),
        N_("A login command begins with ssh: cloudrun host {verb} {host_name} \"ssh -p PORT USER@HOST\"; or give user@host:port"),
    ),
    "target-command": Entry(
        Exit.USAGE,
        N_("after the address stands a command, {command!r}; a host is only the way to the box"),
        N_("cloudrun host {verb} {host_name} \"{login}\"; commands come later: cloudrun launch NAME -- COMMAND"),
    ),
    "target-no-host": Entry(Exit.USAGE, N_("no host stands in {target!r}"), _TARGETS),
    "target-host": Entry(Exit.USAGE, N_("{host!r} is no host name: {character!r} cannot be in one"), _TARGETS),
    "target-port": Entry(Exit.USAGE, N_("{port!r} is no port: a number from 1 to 65535"), _TARGETS),
    "target-user": Entry(Exit.USAGE, N_("{user!r} is no user name"), _TARGETS),
    "target-quotes": Entry(Exit.USAGE, N_("a quotation mark is left open in {target!r}"), _TARGETS),
    "target-option": Entry(Exit.USAGE, N_("ssh has no option {option}"), _TARGETS),
    "target-option-value": Entry(Exit.USAGE, N_("the option {option} needs a value"), _TARGETS),
    "target-not-ssh": Entry(
        Exit.USAGE,
        N_("{target!r} is an address of the web, not of SSH"),
        _TARGETS,
    ),
    "ssh-config-wrong": Entry(
        Exit.CONFIG,
        N_("your ssh configuration does not answer for {name!r}: {detail}"),
        N_("ssh -G {name}"),
    ),
    "ssh-config-jumps": Entry(
        Exit.CONFIG,
        N_("the jump hosts of {name!r} go round in a circle, or are more than {most}"),
        N_("ssh -G {name}"),
    ),
}
