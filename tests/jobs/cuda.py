"""A CUDA device through its driver alone (libcuda, no toolkit and no framework): kernels that keep it
busy for a time, and copies to it.

The library is the machine's own. `FEEDLINE_CUDA` names another, as the tests do with the stub
(`cuda_stub.c`), so that the same program runs where there is no device.
"""

import ctypes
import os
import sys

# A kernel of one thread that runs until the device's own clock has moved on by `ns`.
SPIN = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 ns)
{
    .reg .u64 %rd<5>;
    .reg .pred %p<2>;
    ld.param.u64 %rd1, [ns];
    mov.u64 %rd2, %globaltimer;
again:
    mov.u64 %rd3, %globaltimer;
    sub.u64 %rd4, %rd3, %rd2;
    setp.lt.u64 %p1, %rd4, %rd1;
    @%p1 bra again;
    ret;
}
\0"""


class Cuda:
    """The first device, with a context of its own."""

    def __init__(self):
        try:
            self.lib = ctypes.CDLL(os.environ.get("FEEDLINE_CUDA", "libcuda.so.1"))
        except OSError as error:
            print(f"skipped: no CUDA driver ({error})", file=sys.stderr)
            sys.exit(77)
        self.lib.cuMemcpyHtoD_v2.argtypes = [ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t]
        self.lib.cuMemAlloc_v2.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        self.lib.cuLaunchKernel.argtypes = [ctypes.c_void_p] + [ctypes.c_uint] * 7 + [ctypes.c_void_p] * 3
        device, context, module, self.spin = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
        self.call("cuModuleLoadData", ctypes.byref(module), SPIN)
        self.call("cuModuleGetFunction", ctypes.byref(self.spin), module, b"spin")

    def call(self, name, *args):
        """A driver call that ends the job where it fails: a number of CUresult."""
        code = getattr(self.lib, name)(*args)
        if code:
            raise RuntimeError(f"{name}: CUresult {code}")

    def work(self, seconds):
        """Starts a kernel of that length; returns at once."""
        span = ctypes.c_uint64(int(seconds * 1e9))
        args = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(span), ctypes.c_void_p))
        self.call("cuLaunchKernel", self.spin, 1, 1, 1, 1, 1, 1, 0, None, args, None)

    def wait(self):
        """Waits until the device has done all of it."""
        self.call("cuCtxSynchronize")

    def room(self, size):
        """An address on the device with room for `size` bytes."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), size)
        return address.value

    def copy(self, to, room, size):
        """Copies pageable memory to the device, and waits for it."""
        self.call("cuMemcpyHtoD_v2", to, room, size)
