"""Only what pyproject.toml cannot say: the cffi module and the wheel's ABI tag."""

import sysconfig

from setuptools import setup

free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
setup(
    cffi_modules=["csrc/build_ffi.py:ffi"],
    options={"bdist_wheel": {"py_limited_api": False if free_threaded else "cp310"}},
)
