"""Only what pyproject.toml cannot say: what is compiled, and the wheel's ABI tag."""

import runpy
import shlex
import shutil
import sysconfig
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

from distutils.command.build_scripts import build_scripts  # isort: skip

library = runpy.run_path("csrc/build_library.py")


class BuildExtension(build_ext):
    """The library first: the extension is linked to it."""

    def run(self) -> None:
        target = Path("hybrid" if self.inplace else Path(self.build_lib, "hybrid"))
        made = library["build_package"](target)
        for extension in self.extensions:
            extension.library_dirs.append(str(made.parent))
        super().run()
        names = {Path(self.get_ext_filename(extension.name)).name for extension in self.extensions}
        for former in target.glob("_native*.so"):  # of another name, which would be imported
            if self.inplace and former.name not in names:
                former.unlink()


class BuildPackage(build_py):
    """The C sources ride along; an editable install has them where they are."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for source in library["shipped"]():
            made = Path(self.build_lib, "hybrid", source.relative_to(library["CSRC"].parent))
            made.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, made)


class BuildScripts(build_scripts):
    """The script looks for the package beside it; of an editable install that is elsewhere."""

    def run(self) -> None:
        super().run()
        if self.get_finalized_command("build_py").editable_mode:
            made = Path(self.build_dir, "hybrid-run")
            package = shlex.quote(str(Path("hybrid").resolve()))
            made.write_text(made.read_text().replace("package=", f"package={package}", 1))


class BuildWheel(bdist_wheel):
    """Compressed as well as zip can: a hundredth less to download and to keep."""

    def run(self) -> None:
        super().run()
        made = Path(self.distribution.dist_files[-1][2])
        part = made.with_suffix(".part")
        with ZipFile(made) as wheel, ZipFile(part, "w", ZIP_DEFLATED) as smaller:
            for entry in wheel.infolist():
                smaller.writestr(entry, wheel.read(entry), compresslevel=9)
        part.replace(made)


free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
setup(
    cffi_modules=["csrc/build_ffi.py:ffi"],
    cmdclass={
        "bdist_wheel": BuildWheel,
        "build_ext": BuildExtension,
        "build_py": BuildPackage,
        "build_scripts": BuildScripts,
    },
    scripts=["csrc/tools/hybrid-run"],
    options={"bdist_wheel": {"py_limited_api": False if free_threaded else "cp310"}},
)
