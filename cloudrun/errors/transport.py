"""Errors about connections, keys and logins."""

from __future__ import annotations

from cloudrun.errors.catalogue import Entry
from cloudrun.errors.exit_codes import Exit
from cloudrun.i18n import N_

_KEY_HINT = N_("cloudrun host set {host_name} --key FILE")
#: The providers' habit that stands behind most failures of a box that worked yesterday.
_CHANGED = N_("Port and password may change when the instance is switched off and on; with the login command of its page: "
              "cloudrun host set {host_name} \"ssh -p PORT USER@HOST\"")

ENTRIES: dict[str, Entry] = {
    "unreachable": Entry(
        Exit.UNREACHABLE,
        N_("cannot reach {host}: {detail}. This says nothing about the runs on it"),
        N_("Is the instance on? Its port may have changed when it was switched off and on; with the login command of its page: "
           "cloudrun host set {host_name} \"ssh -p PORT USER@HOST\""),
    ),
    "host-name-unknown": Entry(
        Exit.UNREACHABLE,
        N_("the name {host} is not known to the network ({detail})"),
        N_("Is this machine online? To change the address: cloudrun host set {host_name} \"ssh -p PORT USER@HOST\""),
    ),
    "not-ssh": Entry(
        Exit.UNREACHABLE,
        N_("{host} answers, but not as an SSH server: {text}"),
        N_("Its port may have changed when it was switched off and on; with the login command of its page: "
           "cloudrun host set {host_name} \"ssh -p PORT USER@HOST\""),
    ),
    "ssh-nothing-in-common": Entry(
        Exit.UNREACHABLE,
        N_("{host} speaks only SSH algorithms that are no longer safe: {detail}"),
        N_("Update the SSH server in the instance's image."),
    ),
    "connection-lost": Entry(
        Exit.UNREACHABLE,
        N_("the connection to {host} was lost; what runs on the box goes on"),
        N_("cloudrun ps"),
    ),
    "exec-refused": Entry(
        Exit.UNREACHABLE,
        N_("{host} let us in but would not start a command: {detail}"),
        N_("Does the account have a login shell? Try: ssh -p PORT USER@HOST true"),
    ),
    "terminal-refused": Entry(
        Exit.UNREACHABLE,
        N_("{host} gives no terminal to a login, so a session cannot be entered from here"),
        N_("cloudrun logs -f   (or, in the box's sshd_config: PermitTTY yes, then restart its sshd)"),
    ),
    "no-more-sessions": Entry(
        Exit.UNREACHABLE,
        N_("{host} allows no more sessions, on further connections neither"),
        N_("Close other logins to it, or raise MaxSessions in its sshd_config."),
    ),
    "put-failed": Entry(
        Exit.BOX,
        N_("{path} could not be written on {host}: {detail}"),
        N_("Look on the box: df -h ~; df -i ~; ls -ld ~ ~/.cloudrun   (then the same command again)"),
    ),
    "local-needs-posix": Entry(
        Exit.USAGE,
        N_("the host `local` needs Linux or macOS: runs live in a Unix shell"),
        N_("cloudrun host add NAME \"ssh -p PORT USER@HOST\""),
    ),
    "host-key-changed": Entry(
        Exit.HOST_KEY_CHANGED,
        N_("{host} shows another host key than the known one. Known: {old}. Now: {new}. Nothing was sent. With these providers "
           "a new instance often takes over an old address; or somebody stands in between"),
        N_("If the instance is new (compare the fingerprint on its page): cloudrun host trust '{host}'"),
    ),
    "host-key-not-replaced": Entry(
        Exit.HOST_KEY_CHANGED,
        N_("{host} shows another host key than the known one, and there is no terminal to ask on. Known: {old}. "
           "Now: {fingerprint} ({kind}); the known one stays"),
        N_("On a terminal: cloudrun host trust '{host}'; in scripts, with the fingerprint of the instance's page: "
           "cloudrun host trust '{host}' --fingerprint SHA256:…   (--accept-new is for first contact only)"),
    ),
    "host-key-not-expected": Entry(
        Exit.HOST_KEY_CHANGED,
        N_("{host} shows the host key {fingerprint} ({kind}), which is not the one that was given; nothing was sent"),
        N_("Take the fingerprint from the instance's page: cloudrun host trust '{host}' --fingerprint SHA256:…"),
    ),
    "host-key-refused": Entry(
        Exit.HOST_KEY_UNKNOWN,
        N_("the host key of {host} ({fingerprint}) was not accepted; nothing was sent"),
        N_("Compare it with the instance's page, then answer yes: cloudrun doctor --host {host_name}"),
    ),
    "host-key-unknown": Entry(
        Exit.HOST_KEY_UNKNOWN,
        N_("the host key of {host} is not known yet ({kind} {fingerprint}), and there is no terminal to ask on"),
        N_("Once, on a terminal: cloudrun doctor; or in scripts: cloudrun host trust '{host}' --accept-new"),
    ),
    "host-key-revoked": Entry(
        Exit.HOST_KEY_CHANGED,
        N_("the host key that {host} shows ({fingerprint}) is marked @revoked in known_hosts"),
        N_("Give the instance a new host key, or take the mark out of ~/.ssh/known_hosts."),
    ),
    "known-hosts-unwritable": Entry(
        Exit.CONFIG,
        N_("the file of known host keys, {path}, cannot be written: {detail}"),
        N_("Mend the folder's permissions, or choose another with CLOUDRUN_CONFIG_DIR."),
    ),
    "login-refused": Entry(
        Exit.AUTHENTICATION,
        N_("{host} refused the login of {user}. Tried: {tried}"),
        N_("Port and password may change when the instance is switched off and on; with the login command of its page: "
           "cloudrun host set {host_name} \"ssh -p PORT USER@HOST\"; with another key: cloudrun host set {host_name} --key FILE"),
    ),
    "password-wanted": Entry(
        Exit.AUTHENTICATION,
        N_("{host} wants the password of {user}, and there is no terminal to ask on. Keys tried: {tried}"),
        N_("cloudrun host set {host_name} --password-stdin < FILE. Port and password may change when the instance is switched "
           "off and on: cloudrun host set {host_name} \"ssh -p PORT USER@HOST\" takes its new login command"),
    ),
    "password-wrong": Entry(Exit.AUTHENTICATION, N_("{host} does not take that password of {user}"), _CHANGED),
    "password-empty": Entry(
        Exit.USAGE,
        N_("no password came on stdin"),
        N_("cloudrun host set {host_name} --password-stdin < FILE; without --password-stdin it is asked for on the terminal"),
    ),
    "keys-refused": Entry(
        Exit.AUTHENTICATION,
        N_("{host} takes no keys: its SSH server leaves only other ways to log in to {user}"),
        N_("On the box, in /etc/ssh/sshd_config: PubkeyAuthentication yes; then restart its sshd. Until then cloudrun asks for "
           "the password each time"),
    ),
    "key-not-installed": Entry(
        Exit.BOX,
        N_("cloudrun's own key could not be added to ~/.ssh/authorized_keys on {host}: {detail}"),
        N_("Mend that on the box, then: cloudrun host set {host_name} --password-stdin < FILE. Until then the password is asked "
           "for each time"),
    ),
    "key-not-taken": Entry(
        Exit.AUTHENTICATION,
        N_("cloudrun's own key stands in ~/.ssh/authorized_keys on {host}, but its SSH server does not take it for {user}"),
        N_("On the box, see where it reads keys: sshd -T | grep -i authorizedkeys. Until then the password is asked for each time"),
    ),
    "key-not-taken-modes": Entry(
        Exit.AUTHENTICATION,
        N_("cloudrun's own key stands in ~/.ssh/authorized_keys on {host}, but its SSH server does not take it for {user}: others "
           "may write there ({modes})"),
        N_("On the box: chmod go-w ~ ~/.ssh ~/.ssh/authorized_keys. Until then the password is asked for each time"),
    ),
    "own-key-unwritable": Entry(
        Exit.CONFIG,
        N_("cloudrun's own key cannot be made at {path}: {detail}"),
        N_("Mend the folder's permissions, or choose another with CLOUDRUN_CONFIG_DIR."),
    ),
    "login-cut": Entry(
        Exit.AUTHENTICATION,
        N_("{host} hangs up during the login of {user}, again and again"),
        N_("Name the one key that opens it: cloudrun host set {host_name} --key FILE. Port and password may change when the "
           "instance is switched off and on: cloudrun host set {host_name} \"ssh -p PORT USER@HOST\""),
    ),
    "key-unreadable": Entry(Exit.AUTHENTICATION, N_("the key file {file} cannot be read: {detail}"), _KEY_HINT),
    "key-missing": Entry(
        Exit.CONFIG, N_("there is no key file {file}"), N_("ls ~/.ssh   (or make one: ssh-keygen -t ed25519)"),
    ),
    "key-empty": Entry(Exit.AUTHENTICATION, N_("the key file {file} is empty"), _KEY_HINT),
    "key-is-public": Entry(
        Exit.AUTHENTICATION,
        N_("{file} is the public half of a key; the private one is needed"),
        N_("cloudrun host set {host_name} --key {private}"),
    ),
    "key-putty": Entry(
        Exit.AUTHENTICATION,
        N_("{file} is a key in PuTTY's own format"),
        N_("In OpenSSH's format: puttygen {file} -O private-openssh -o id_box; then: cloudrun host set {host_name} --key id_box"),
    ),
    "key-not-a-key": Entry(Exit.AUTHENTICATION, N_("{file} holds no private key"), _KEY_HINT),
    "key-broken": Entry(Exit.AUTHENTICATION, N_("the key in {file} cannot be read: {detail}"), _KEY_HINT),
    "key-kind": Entry(
        Exit.AUTHENTICATION,
        N_("the key in {file} is of a kind that is not supported ({kind})"),
        N_("Make one of today's kind: ssh-keygen -t ed25519"),
    ),
    "key-locked": Entry(
        Exit.AUTHENTICATION,
        N_("the key {file} has a passphrase, and there is nobody to ask for it"),
        N_("ssh-add {file}"),
    ),
    "key-passphrase": Entry(
        Exit.AUTHENTICATION,
        N_("that is not the passphrase of the key {file}"),
        N_("Try it with: ssh-keygen -y -f {file}"),
    ),
    "nobody-to-type": Entry(
        Exit.AUTHENTICATION,
        N_("{prompt}: there is no terminal to ask on"),
        N_("ssh-add FILE, or: cloudrun host set {host_name} --key FILE"),
    ),
}
