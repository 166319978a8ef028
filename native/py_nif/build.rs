//! Link arguments of the NIF library: where it finds libpython, and where its other symbols come
//! from.

fn main() {
    // `Py_GIL_DISABLED` and the like, for `cfg`.
    pyo3_build_config::use_pyo3_cfgs();
    // The Erlang VM loads the library and does not know Python: so the path of the libpython that
    // it was linked with is stored in it.
    pyo3_build_config::add_libpython_rpath_link_args();
    pyo3_build_config::add_python_framework_link_args();
    // The `enif_*` functions come from the VM at load time. macOS requires an option for that
    // (`-undefined dynamic_lookup`); elsewhere this adds nothing.
    pyo3_build_config::add_extension_module_link_args();
}
