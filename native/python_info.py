"""Can the library be linked with this Python, and which one is it?

Run by native/build with the interpreter in question. Prints the terms of priv/build_info, or one
sentence on stderr and exits with 1. With the argument `prebuilt` only what a library that is there
already needs is looked for: no headers. Written so that an old Python can still read it.
"""

import os
import sys
import sysconfig

OLDEST = (3, 11)


def main():
    fault = find_fault(sys.argv[1:] == ["prebuilt"])
    if fault:
        sys.exit("erlang_loop: " + fault)
    print(term("python", sys.executable))
    print(term("python_version", ".".join(map(str, sys.version_info[:3]))))
    print(term("libpython", find_library(sysconfig.get_config_var("INSTSONAME"))))
    print(term("base_prefix", sys.base_prefix))
    threads = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    print(term("tag", "cp" + "".join(map(str, sys.version_info[:2])) + threads))


def find_fault(prebuilt):
    """The first reason why this Python will not do, as a sentence; None if there is none."""
    version = ".".join(map(str, sys.version_info[:2]))
    python = "Python " + version + " (" + sys.executable + ")"
    other = "choose another with PYTHON=/path/to/python3"
    package = "libpython" + version + ("" if prebuilt else "-dev")
    if sys.version_info[:2] < OLDEST:
        return python + " is too old, 3.11 or newer is needed: " + other + "."
    if not sysconfig.get_config_var("Py_ENABLE_SHARED") and not is_framework():
        return python + " was built without --enable-shared, so has no libpython: " + other + "."
    # The linker wants libpython3.x.so, the loader libpython3.x.so.1.0.
    for name in ("INSTSONAME",) if prebuilt else ("LDLIBRARY", "INSTSONAME"):
        library = sysconfig.get_config_var(name)
        if find_library(library) is None:
            return python + " lacks " + library + ": install " + package + ", or " + other + "."
    header = os.path.join(sysconfig.get_paths()["include"], "Python.h")
    if not (prebuilt or os.path.exists(header)):
        return python + " lacks " + header + ": install " + package + ", or " + other + "."
    return None


def is_framework():
    """macOS has Python as a framework, which is shared by nature."""
    return bool(sysconfig.get_config_var("PYTHONFRAMEWORK"))


def find_library(name):
    """The full path of a library of this Python, or None."""
    folders = [sysconfig.get_config_var(var) for var in ("LIBDIR", "PYTHONFRAMEWORKPREFIX")]
    for folder in folders:
        path = os.path.join(folder or "", name)
        if folder and os.path.exists(path):
            return path
    return None


def term(key, value):
    """One line that file:consult/1 reads."""
    return "{" + key + ', "' + value.replace("\\", "\\\\").replace('"', '\\"') + '"}.'


if __name__ == "__main__":
    main()
