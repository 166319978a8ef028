//! Link arguments of the NIF library: where it finds libpython, and where its other symbols come
//! from.

fn main() {
    // `Py_GIL_DISABLED` and the like, for `cfg`.
    pyo3_build_config::use_pyo3_cfgs();
    // The Erlang VM loads the library and does not know Python: so the path of libpython is stored
    // in the library. Not here, but when it is installed (native/artifact.py): until then, this
    // stands there, which is long enough for any path and the same on all machines.
    println!(
        "cargo:rustc-link-arg=-Wl,-rpath,/erlang_loop/libpython/{}",
        "x".repeat(232)
    );
    pyo3_build_config::add_python_framework_link_args();
    // The `enif_*` functions come from the VM at load time. macOS requires an option for that
    // (`-undefined dynamic_lookup`); elsewhere this adds nothing.
    pyo3_build_config::add_extension_module_link_args();
}
