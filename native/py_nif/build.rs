//! Link arguments of the NIF library: where it finds libpython, and who supplies the rest.

fn main() {
    // `Py_GIL_DISABLED` and the like, for `cfg`.
    pyo3_build_config::use_pyo3_cfgs();
    // The library is loaded by the Erlang VM, which knows no Python: the place of the libpython
    // it was linked with is written into it.
    pyo3_build_config::add_libpython_rpath_link_args();
    pyo3_build_config::add_python_framework_link_args();
    // The `enif_*` functions come from the VM at load time. macOS wants that said
    // (`-undefined dynamic_lookup`); elsewhere this adds nothing.
    pyo3_build_config::add_extension_module_link_args();
}
