"""The driver's calls, against the stub: kernels run beside the caller, copies hold it."""

import ctypes
import os
import shutil
import subprocess
import tempfile
import time
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))


@unittest.skipUnless(shutil.which("cc"), "no C compiler (cc)")
class Driver(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        library = os.path.join(folder.name, "libcuda.so.1")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, os.path.join(HERE, "cuda_stub.c")], check=True)
        with mock.patch.dict(os.environ, {"FEEDLINE_CUDA": library}):
            import cuda

            self.cuda = cuda.Cuda()

    def test_a_wait_is_as_long_as_the_work_launched_before_it(self):
        start = time.monotonic()
        self.cuda.work(0.2)
        launched = time.monotonic() - start
        self.cuda.wait()
        waited = time.monotonic() - start
        self.assertLess(launched, waited)
        self.assertGreaterEqual(waited, 0.2)

    def test_a_copy_arrives(self):
        room = ctypes.create_string_buffer(b"batch", 4096)
        address = self.cuda.room(4096)
        self.cuda.copy(address, room, 4096)
        self.assertEqual(ctypes.string_at(address, 5), b"batch")

    def test_a_call_that_fails_ends_the_job_and_is_named(self):
        self.cuda.lib = mock.Mock(cuInit=mock.Mock(return_value=100))
        with self.assertRaisesRegex(RuntimeError, "cuInit: CUresult 100"):
            self.cuda.call("cuInit", 0)


if __name__ == "__main__":
    unittest.main()
