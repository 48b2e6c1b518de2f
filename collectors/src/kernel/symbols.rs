//! Which functions of the device's libraries are probed, as data.

/// What a call does, in the order of the programs' `enum call`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Call {
    Launch,
    CopyH2d,
    CopyD2h,
    CopyOther,
    Sync,
    Collective,
    Alloc,
}

impl Call {
    const ALL: [Self; 7] =
        [Self::Launch, Self::CopyH2d, Self::CopyD2h, Self::CopyOther, Self::Sync, Self::Collective, Self::Alloc];

    /// The call of a number in the programs' maps.
    pub(super) fn of(number: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// As it stands in `device_call.call`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Launch => "launch",
            Self::CopyH2d => "copy_h2d",
            Self::CopyD2h => "copy_d2h",
            Self::CopyOther => "copy_other",
            Self::Sync => "sync",
            Self::Collective => "collective",
            Self::Alloc => "alloc",
        }
    }

    /// Whether its calls move or take bytes that the arguments tell.
    pub(super) fn has_bytes(self) -> bool {
        !matches!(self, Self::Launch | Self::Sync)
    }
}

/// Where a call's bytes stand in its arguments, in the order of the programs' `enum size_rule`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    /// Nowhere.
    None,
    /// The second argument.
    Second,
    /// The third.
    Third,
    /// The third, and the fourth says the direction (`cudaMemcpy`).
    RuntimeCopy,
    /// The third counts elements of the type in the fourth (NCCL).
    ElementsThird,
    /// The second counts elements of the type in the third (NCCL).
    ElementsSecond,
}

/// A function to probe.
#[derive(Debug, Clone, Copy)]
pub(super) struct Function {
    pub(super) name: &'static str,
    pub(super) call: Call,
    size: Size,
}

impl Function {
    /// What the programs are told of the function they were called for.
    pub(super) fn cookie(&self) -> u64 {
        self.call as u64 | (self.size as u64) << 8
    }
}

/// A library of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Library {
    /// The driver, which every runtime calls in the end.
    Driver,
    /// The runtime, where it is a library of its own and the driver is not seen.
    Runtime,
    /// Collectives.
    Nccl,
}

impl Library {
    /// The library of a mapped file, by its name.
    pub(super) fn of(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next()?;
        let is = |stem: &str| name.strip_prefix(stem).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        if is("libcuda.so") {
            Some(Self::Driver)
        } else if is("libcudart.so") || (name.starts_with("libcudart-") && name.contains(".so")) {
            Some(Self::Runtime)
        } else if is("libnccl.so") {
            Some(Self::Nccl)
        } else {
            None
        }
    }

    /// Its functions, the most telling first.
    pub(super) fn functions(self) -> &'static [Function] {
        match self {
            Self::Driver => DRIVER,
            Self::Runtime => RUNTIME,
            Self::Nccl => NCCL,
        }
    }
}

/// The libraries that a process has mapped, by path, from `/proc/PID/maps`.
pub(super) fn libraries(maps: &str) -> Vec<(Library, String)> {
    let mut found: Vec<(Library, String)> = Vec::new();
    for line in maps.lines() {
        // Five fields, then the path, which may hold spaces.
        let path = line.splitn(6, ' ').nth(5).map(str::trim_start).filter(|path| path.starts_with('/'));
        let Some((path, library)) = path.and_then(|path| Some((path, Library::of(path)?))) else { continue };
        if !found.iter().any(|(_, known)| known == path) {
            found.push((library, path.to_owned()));
        }
    }
    // The runtime's calls reach the driver: probing both would cost twice and tell nothing more.
    if found.iter().any(|(library, _)| *library == Library::Driver) {
        found.retain(|(library, _)| *library != Library::Runtime);
    }
    found
}

const fn function(name: &'static str, call: Call, size: Size) -> Function {
    Function { name, call, size }
}

use Call::{Alloc, Collective, CopyD2h, CopyH2d, CopyOther, Launch, Sync};
use Size::{ElementsSecond, ElementsThird, RuntimeCopy, Second, Third};

/// `_ptsz` and `_ptds` are the same with a default stream of each thread.
const DRIVER: &[Function] = &[
    function("cuStreamSynchronize", Sync, Size::None),
    function("cuStreamSynchronize_ptsz", Sync, Size::None),
    function("cuCtxSynchronize", Sync, Size::None),
    function("cuCtxSynchronize_v2", Sync, Size::None),
    function("cuEventSynchronize", Sync, Size::None),
    function("cuMemcpyHtoD_v2", CopyH2d, Third),
    function("cuMemcpyHtoD_v2_ptds", CopyH2d, Third),
    function("cuMemcpyHtoDAsync_v2", CopyH2d, Third),
    function("cuMemcpyHtoDAsync_v2_ptsz", CopyH2d, Third),
    function("cuMemcpyDtoH_v2", CopyD2h, Third),
    function("cuMemcpyDtoH_v2_ptds", CopyD2h, Third),
    function("cuMemcpyDtoHAsync_v2", CopyD2h, Third),
    function("cuMemcpyDtoHAsync_v2_ptsz", CopyD2h, Third),
    function("cuMemcpy", CopyOther, Third),
    function("cuMemcpy_ptds", CopyOther, Third),
    function("cuMemcpyAsync", CopyOther, Third),
    function("cuMemcpyAsync_ptsz", CopyOther, Third),
    function("cuMemcpyDtoD_v2", CopyOther, Third),
    function("cuMemcpyDtoDAsync_v2", CopyOther, Third),
    function("cuMemcpyDtoDAsync_v2_ptsz", CopyOther, Third),
    function("cuMemcpy2D_v2", CopyOther, Size::None),
    function("cuMemcpy2DAsync_v2", CopyOther, Size::None),
    function("cuMemcpy3D_v2", CopyOther, Size::None),
    function("cuMemcpy3DAsync_v2", CopyOther, Size::None),
    function("cuMemAlloc_v2", Alloc, Second),
    function("cuMemAllocAsync", Alloc, Second),
    function("cuMemAllocHost_v2", Alloc, Second),
    function("cuMemHostAlloc", Alloc, Second),
    function("cuMemHostRegister_v2", Alloc, Second),
    function("cuMemCreate", Alloc, Second),
    function("cuMemFree_v2", Alloc, Size::None),
    function("cuMemFreeHost", Alloc, Size::None),
    function("cuGraphLaunch", Launch, Size::None),
    function("cuGraphLaunch_ptsz", Launch, Size::None),
    function("cuLaunchKernel", Launch, Size::None),
    function("cuLaunchKernel_ptsz", Launch, Size::None),
    function("cuLaunchKernelEx", Launch, Size::None),
    function("cuLaunchKernelEx_ptsz", Launch, Size::None),
    function("cuLaunchCooperativeKernel", Launch, Size::None),
];

const RUNTIME: &[Function] = &[
    function("cudaDeviceSynchronize", Sync, Size::None),
    function("cudaStreamSynchronize", Sync, Size::None),
    function("cudaEventSynchronize", Sync, Size::None),
    function("cudaMemcpy", CopyOther, RuntimeCopy),
    function("cudaMemcpyAsync", CopyOther, RuntimeCopy),
    function("cudaMalloc", Alloc, Second),
    function("cudaMallocHost", Alloc, Second),
    function("cudaHostAlloc", Alloc, Second),
    function("cudaFree", Alloc, Size::None),
    function("cudaFreeHost", Alloc, Size::None),
    function("cudaGraphLaunch", Launch, Size::None),
    function("cudaLaunchKernel", Launch, Size::None),
    function("cudaLaunchKernelExC", Launch, Size::None),
];

const NCCL: &[Function] = &[
    function("ncclAllReduce", Collective, ElementsThird),
    function("ncclReduceScatter", Collective, ElementsThird),
    function("ncclAllGather", Collective, ElementsThird),
    function("ncclBroadcast", Collective, ElementsThird),
    function("ncclBcast", Collective, ElementsSecond),
    function("ncclReduce", Collective, ElementsThird),
    function("ncclSend", Collective, ElementsSecond),
    function("ncclRecv", Collective, ElementsSecond),
    function("ncclGroupEnd", Collective, Size::None),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_libraries_of_a_process_are_found_by_name_and_the_runtime_gives_way_to_the_driver() {
        let line = |path: &str| format!("7f0000000000-7f0000001000 r-xp 00000000 fd:00 12345   {path}\n");
        let maps = [
            "/usr/lib/x86_64-linux-gnu/libcuda.so.535.104.05",
            "/usr/lib/x86_64-linux-gnu/libcuda.so.535.104.05",
            "/opt/my env/lib/libnccl.so.2",
            "/opt/env/lib/libcudart.so.12",
            "/usr/lib/libcudart_static.so",
            "/usr/lib/libcudadebugger.so.1",
            "[heap]",
        ];
        let maps: String = maps.into_iter().map(line).collect();
        let found = libraries(&maps);
        let expected = [
            (Library::Driver, "/usr/lib/x86_64-linux-gnu/libcuda.so.535.104.05"),
            (Library::Nccl, "/opt/my env/lib/libnccl.so.2"),
        ];
        assert_eq!(found, expected.map(|(library, path)| (library, path.to_owned())));
        let alone = libraries(&line("/x/libcudart.so.12"));
        assert_eq!(alone, [(Library::Runtime, "/x/libcudart.so.12".to_owned())]);
        assert_eq!(libraries(&line("/x/libcudart-c3a75b33.so.11.0"))[0].0, Library::Runtime);
    }

    #[test]
    fn a_cookie_carries_the_call_and_where_its_bytes_are() {
        let cookie = |name: &str| DRIVER.iter().chain(NCCL).find(|f| f.name == name).unwrap().cookie();
        assert_eq!(cookie("cuMemcpyHtoD_v2"), 1 | 2 << 8);
        assert_eq!(cookie("ncclAllReduce"), 5 | 4 << 8);
        assert_eq!(cookie("cuLaunchKernel"), 0);
    }

    #[test]
    fn calls_keep_their_numbers() {
        for (number, call) in Call::ALL.into_iter().enumerate() {
            assert_eq!(call as usize, number);
            assert_eq!(Call::of(u32::try_from(number).unwrap()), Some(call));
        }
        assert_eq!(Call::of(7), None);
    }
}
