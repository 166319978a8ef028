"""The native library as a file: where it finds libpython, and prebuilt ones.

Run by native/build and scripts/dist with the interpreter that the library is for:

    artifact.py name                      what a prebuilt library for this Python is called
    artifact.py install FROM TO           copies a library that cargo has built
    artifact.py fetch SOURCE TO KNOWN     copies one from the folder or URL SOURCE; KNOWN is what
                                          `priv/build_info` says of the one that is there

The library is linked with a placeholder as its run path (native/py_nif/build.rs). The copy gets the
folder of this Python's libpython, so one file serves every machine. Prebuilt files stand beside
SHA256SUMS, which lists them. Whatever is wrong is one sentence on stderr, and exit code 1.
"""

import hashlib
import os
import platform
import re
import subprocess
import sys
import sysconfig
import urllib.error
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
#: As in native/py_nif/build.rs.
PLACEHOLDER = b"/erlang_loop/libpython/" + b"x" * 232
PATIENCE = 60


class RefusedError(Exception):
    """Its text is a sentence."""


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def version():
    return re.search(r'{vsn, "([^"]+)"}', read("erl_src/erlang_loop.app.src"))[1]


def nif_version():
    """The oldest one that the library works with; later minor ones do, too."""
    major, minor = re.search(r"nif_version_(\d+)_(\d+)", read("native/py_nif/Cargo.toml")).groups()
    return (int(major), int(minor))


def tag():
    """This Python: cp311, cp313t."""
    threads = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    return "cp{}{}{}".format(*sys.version_info[:2], threads)


def target():
    """x86_64-linux-gnu, aarch64-linux-musl."""
    known = sysconfig.get_config_var("MULTIARCH")
    libc = "gnu" if platform.libc_ver()[0] == "glibc" else "musl"
    return known or f"{platform.machine()}-linux-{libc}"


def name(nif):
    return "erlang_loop-{}-nif{}.{}-{}-{}.so".format(version(), *nif, tag(), target())


def running_nif_version():
    """That of the Erlang on the PATH."""
    code = "io:put_chars(erlang:system_info(nif_version)), halt()."
    command = ["erl", "-boot", "no_dot_erlang", "-noshell", "-eval", code]
    try:
        shown = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise RefusedError(f"erl cannot be run: {error}") from None
    major, minor = shown.stdout.decode().split(".")[:2]
    return (int(major), int(minor))


def with_run_path(library):
    """The library, which finds libpython where this Python has it."""
    folder = os.fsencode(sysconfig.get_config_var("LIBDIR") or "")
    if len(folder) > len(PLACEHOLDER):
        raise RefusedError(f"the path of libpython is longer than {len(PLACEHOLDER)} bytes")
    return library.replace(PLACEHOLDER, folder.ljust(len(PLACEHOLDER), b"\0"))


def write(library, to):
    # The caller renames it: an interrupted build leaves no half of a library.
    with open(to, "wb") as file:
        file.write(library)
    os.chmod(to, 0o755)


def install(built, to):
    with open(built, "rb") as file:
        write(with_run_path(file.read()), to)


def load(source, file):
    """The bytes of a file of the source."""
    place = source.rstrip("/") + "/" + file
    try:
        if re.match(r"[a-z]+://", source):
            with urllib.request.urlopen(place, timeout=PATIENCE) as reply:
                return reply.read()
        with open(place, "rb") as opened:
            return opened.read()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or getattr(error, "reason", None) or error
        raise RefusedError(f"{place} cannot be read: {reason}") from None


def choose(source):
    """The name and the checksum of the library that fits this Python, this OTP and this machine."""
    listed = {}
    for line in load(source, "SHA256SUMS").decode("utf-8", "replace").splitlines():
        found = re.match(r"([0-9a-f]{64}) [ *]([\w.+-]+)$", line)
        if found:
            listed[found[2]] = found[1]
    major, minor = running_nif_version()
    # The newest interface that this VM has.
    for fits in range(minor, -1, -1):
        wanted = name((major, fits))
        if wanted in listed:
            return wanted, listed[wanted]
    there = ", ".join(sorted(listed)) or "none"
    raise RefusedError(
        f"{source} has no library for erlang_loop {version()}, NIF {major}.{minor} (that of this "
        f"Erlang/OTP) or older, Python {tag()} and {target()}; it has: {there}"
    )


def fetch(source, to, known):
    """Prints what build_info is to remember; nothing if `known` says that it is there."""
    wanted, checksum = choose(source)
    chosen = wanted + " " + checksum
    print(chosen)
    if known == chosen:
        return
    library = load(source, wanted)
    if hashlib.sha256(library).hexdigest() != checksum:
        raise RefusedError(
            f"the checksum of {wanted} in {source} is not the one in SHA256SUMS, so it is not used"
        )
    write(with_run_path(library), to)


def main(command, *arguments):
    try:
        if command == "name":
            print(name(nif_version()))
        elif command == "tag":
            print(tag())
        elif command == "install":
            install(*arguments)
        elif command == "fetch":
            fetch(*arguments)
    except RefusedError as refused:
        sys.exit(f"erlang_loop: {refused}.")


if __name__ == "__main__":
    main(*sys.argv[1:])
