//! Where tensors live and are computed: the CPU, or a graphics card that this build can reach.
//!
//! A device is chosen by name at the rim, opened once, and handed on as an argument. Nothing asks the framework for a default
//! one, which would depend on the features of the build.

use burn::backend::DispatchDevice;
use burn::module::Module;
use burn::tensor::kind::Basic;
use burn::tensor::{Device, Tensor, TensorCreationOptions, TensorData};
use serde::{Serialize, Serializer};
use std::fmt::{Display, Formatter};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

/// A device as it is typed: a runtime, and the number of one of its devices where there are several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceChoice {
    runtime: Runtime,
    index: Option<usize>,
}

/// What drives a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Runtime {
    /// The processor, with our kernels.
    #[default]
    Cpu,
    /// Any graphics card, through the graphics interface of the system.
    Wgpu,
    /// The same through Vulkan and nothing else.
    Vulkan,
    /// The same through Metal, on a Mac.
    Metal,
    /// NVIDIA.
    Cuda,
    /// AMD.
    Rocm,
}

/// One device of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// As it is typed.
    pub device: DeviceChoice,
    /// As it calls itself.
    pub name: String,
    /// Its memory, where it says.
    pub memory_bytes: Option<u64>,
}

/// A device cannot be used, or not any longer.
#[derive(Debug, thiserror::Error, PartialEq)]
#[allow(missing_docs)] // The messages say it.
pub enum DeviceError {
    /// No such name.
    #[error(
        "expected cpu, wgpu, vulkan, metal, cuda or rocm, the last five with the number of a device if there are several (cuda:1), found {found}"
    )]
    Name { found: String },
    /// The build left it out.
    #[error(
        "--device {asked}: this program was built without it; hint: build one with `cargo build --release --features {feature}` (docs/devices.md), or leave out --device"
    )]
    NotBuilt { asked: DeviceChoice, feature: &'static str },
    /// The machine has none.
    #[error(
        "--device {asked}: expected such a device on this machine, found {found}; hint: `bdo inspect --devices` lists what there is, docs/devices.md what drivers are needed"
    )]
    Absent { asked: DeviceChoice, found: String },
    /// Not enough memory.
    #[error(
        "{device} has not enough memory for this; hint: lower train.micro_batch_size (the batch stays what it is), close other programs that use the device, or leave out --device"
    )]
    OutOfMemory { device: String },
    /// Anything else the driver says.
    #[error("{device} failed: {reason}; hint: `--device cpu` computes the same")]
    Failed { device: String, reason: String },
}

impl Runtime {
    const ALL: [Self; 6] = [Self::Cpu, Self::Wgpu, Self::Vulkan, Self::Metal, Self::Cuda, Self::Rocm];

    /// As typed, and as the feature of the build is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Wgpu => "wgpu",
            Self::Vulkan => "vulkan",
            Self::Metal => "metal",
            Self::Cuda => "cuda",
            Self::Rocm => "rocm",
        }
    }

    /// Whether this build has it. Vulkan is one of the interfaces of wgpu; its feature only adds another shader compiler.
    pub fn is_built(self) -> bool {
        match self {
            Self::Cpu => true,
            Self::Wgpu | Self::Vulkan => cfg!(feature = "wgpu"),
            Self::Metal => cfg!(feature = "metal"),
            Self::Cuda => cfg!(feature = "cuda"),
            Self::Rocm => cfg!(feature = "rocm"),
        }
    }

    /// Those that this build left out.
    pub fn left_out() -> Vec<Self> {
        Self::ALL.into_iter().filter(|runtime| !runtime.is_built()).collect()
    }
}

impl DeviceChoice {
    /// The processor.
    pub const CPU: Self = Self { runtime: Runtime::Cpu, index: None };

    /// Opens the device: what is returned here can hold tensors.
    pub fn open(self) -> Result<Device, DeviceError> {
        if self.runtime == Runtime::Cpu {
            return Ok(Device::flex());
        }
        if !self.runtime.is_built() {
            return Err(DeviceError::NotBuilt { asked: self, feature: self.runtime.name() });
        }
        cube::open(self)
    }
}

/// Everything this build finds on this machine, the CPU first.
pub fn devices() -> Vec<Found> {
    let cpu =
        Found { device: DeviceChoice::CPU, name: "the processor, with our kernels".to_owned(), memory_bytes: None };
    std::iter::once(cpu).chain(cube::found()).collect()
}

/// Whether tensors of a device lie in the memory of the CPU, where our kernels reach them.
pub fn is_cpu(device: &Device) -> bool {
    match device.as_dispatch() {
        DispatchDevice::Flex(_) => true,
        DispatchDevice::Autodiff(inner) => matches!(**inner, DispatchDevice::Flex(_)),
        #[allow(unreachable_patterns)] // The only ones of a build for the CPU.
        _ => false,
    }
}

/// Where the parameters of a module lie, outside any gradient tape.
pub fn of_module<M: Module>(module: &M) -> Device {
    module.devices().into_iter().next().map_or_else(Device::flex, Device::inner)
}

/// A device by name and part, as records keep it: `cpu`, or `wgpu (llvmpipe)`.
pub fn name_of(device: &Device) -> String {
    if is_cpu(device) { Runtime::Cpu.name().to_owned() } else { cube::name_of(device) }
}

/// Bytes of memory of a device that is not the CPU, where it says.
pub fn memory_bytes(device: &Device) -> Option<u64> {
    if is_cpu(device) { None } else { cube::memory_bytes(device) }
}

/// What went between the host and devices that are not the CPU. A measurement, like the runtime's own count of launches: no result
/// depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Transfers to a device.
    pub uploads: u64,
    /// Their bytes.
    pub uploaded_bytes: u64,
    /// Transfers back.
    pub downloads: u64,
    /// Their bytes.
    pub downloaded_bytes: u64,
}

static UPLOADS: AtomicU64 = AtomicU64::new(0);
static UPLOADED: AtomicU64 = AtomicU64::new(0);
static DOWNLOADS: AtomicU64 = AtomicU64::new(0);
static DOWNLOADED: AtomicU64 = AtomicU64::new(0);

impl Traffic {
    /// Since the process began.
    pub fn so_far() -> Self {
        let now = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Self {
            uploads: now(&UPLOADS),
            uploaded_bytes: now(&UPLOADED),
            downloads: now(&DOWNLOADS),
            downloaded_bytes: now(&DOWNLOADED),
        }
    }

    /// Since an earlier count.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            uploads: self.uploads - earlier.uploads,
            uploaded_bytes: self.uploaded_bytes - earlier.uploaded_bytes,
            downloads: self.downloads - earlier.downloads,
            downloaded_bytes: self.downloaded_bytes - earlier.downloaded_bytes,
        }
    }
}

/// Numbers of the host as a tensor. The one door in: what goes through it to another device is counted.
pub fn upload<const D: usize, K: Basic>(
    data: impl Into<TensorData>,
    place: impl Into<TensorCreationOptions>,
) -> Tensor<D, K> {
    let data: TensorData = data.into();
    let bytes = data.bytes().len() as u64;
    let tensor = Tensor::from_data(data, place);
    if !is_cpu(&tensor.device()) {
        UPLOADS.fetch_add(1, Ordering::Relaxed);
        UPLOADED.fetch_add(bytes, Ordering::Relaxed);
    }
    tensor
}

/// The numbers of a tensor, in row-major order. The one door out.
pub fn download<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    let away = !is_cpu(&tensor.device());
    let values = tensor.into_data().convert::<f32>().try_to_vec::<f32>().expect("just converted");
    if away {
        DOWNLOADS.fetch_add(1, Ordering::Relaxed);
        DOWNLOADED.fetch_add(4 * values.len() as u64, Ordering::Relaxed);
    }
    values
}

/// Runs work and counts the kernels it launches on devices that are not the CPU.
pub fn launches<T>(work: impl FnOnce() -> T) -> (T, u64) {
    cube::launches(work)
}

/// Runs work on a device. What the framework can only say by a panic, memory that ran out above all, becomes an error; on the CPU
/// nothing is caught.
pub fn guarded<T>(device: &Device, work: impl FnOnce() -> T) -> Result<T, DeviceError> {
    if is_cpu(device) {
        return Ok(work());
    }
    // What is said below is all that is said.
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    // Whatever the work left behind is dropped with it: the program ends, or its caller begins anew.
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    std::panic::set_hook(say);
    done.map_err(|panic| {
        let said = panic.downcast_ref::<String>().cloned();
        let said = said.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        failure(name_of(device), &said.unwrap_or_else(|| "without a word".to_owned()))
    })
}

/// What a driver said, as an error.
fn failure(device: String, said: &str) -> DeviceError {
    const NO_MEMORY: [&str; 4] = ["out of device memory", "out-of-memory", "out of memory", "allocate buffer of size"];
    let lower = said.to_lowercase();
    if NO_MEMORY.iter().any(|sign| lower.contains(sign)) {
        return DeviceError::OutOfMemory { device };
    }
    // The framework wraps what happened into what it was doing.
    let inmost = said.rsplit("Caused by:").next().unwrap_or_default();
    let reason = inmost.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("without a word").to_owned();
    DeviceError::Failed { device, reason }
}

impl FromStr for DeviceChoice {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        let unknown = || DeviceError::Name { found: text.to_owned() };
        let (name, index) = match text.split_once(':') {
            Some((name, index)) => (name, Some(index.parse().map_err(|_| unknown())?)),
            None => (text, None),
        };
        let runtime = Runtime::ALL.into_iter().find(|runtime| runtime.name() == name).ok_or_else(unknown)?;
        if runtime == Runtime::Cpu && index.is_some() {
            return Err(unknown());
        }
        Ok(Self { runtime, index })
    }
}

impl Display for DeviceChoice {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self.index {
            Some(index) => write!(f, "{}:{index}", self.runtime.name()),
            None => write!(f, "{}", self.runtime.name()),
        }
    }
}

impl Serialize for DeviceChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The runtimes of graphics cards.
#[cfg(feature = "cube")]
mod cube {
    use super::{Device, DeviceChoice, DeviceError, DispatchDevice, Found, Runtime};
    use burn::backend::CubeDevice;
    use cubecl::device::{DeviceUnavailable, WgpuBackend, WgpuDeviceKind};
    use cubecl::logging::{LaunchObservation, LaunchObserver};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    pub(super) fn open(asked: DeviceChoice) -> Result<Device, DeviceError> {
        let absent = |found: String| DeviceError::Absent { asked, found };
        let one = || WgpuDeviceKind::DefaultDevice;
        let named = match (asked.runtime, asked.index) {
            (Runtime::Wgpu | Runtime::Vulkan | Runtime::Metal, Some(index)) => {
                let mut all = of_runtime(asked.runtime);
                let found = all.len();
                if index >= found {
                    return Err(absent(format!("{found}, counted from 0")));
                }
                let device = all.swap_remove(index);
                match asked.runtime {
                    Runtime::Vulkan => device.on(WgpuBackend::Vulkan),
                    Runtime::Metal => device.on(WgpuBackend::Metal),
                    _ => Ok(device),
                }
            }
            (Runtime::Vulkan, None) => CubeDevice::vulkan(one()),
            (Runtime::Metal, None) => CubeDevice::metal_msl(one()),
            (Runtime::Cuda, index) => CubeDevice::cuda(index.unwrap_or(0)),
            (Runtime::Rocm, index) => CubeDevice::rocm(index.unwrap_or(0)),
            (Runtime::Wgpu | Runtime::Cpu, _) => CubeDevice::wgpu(one()),
        };
        let device = named.map_err(|error| match error {
            DeviceUnavailable::NotLinked(_) => DeviceError::NotBuilt { asked, feature: asked.runtime.name() },
            DeviceUnavailable::NoSuchDevice { available: 0, .. } => absent("none".to_owned()),
            DeviceUnavailable::NoSuchDevice { available, .. } => absent(format!("{available}, counted from 0")),
        })?;
        // Whether its driver works shows when it is first used.
        let device = Device::new(DispatchDevice::Cube(device));
        super::guarded(&device, || drop(identity(&device))).map_err(|error| absent(error.to_string()))?;
        Ok(device)
    }

    /// Devices of a runtime in the order of their numbers.
    fn of_runtime(runtime: Runtime) -> Vec<CubeDevice> {
        let wanted = |device: &CubeDevice| match device {
            CubeDevice::Wgpu(_) => matches!(runtime, Runtime::Wgpu | Runtime::Vulkan | Runtime::Metal),
            CubeDevice::Cuda(_) => runtime == Runtime::Cuda,
            CubeDevice::Hip(_) => runtime == Runtime::Rocm,
            _ => false,
        };
        // A driver that is half installed may panic where it is asked for its devices.
        let all = catch_unwind(CubeDevice::enumerate_all).unwrap_or_default();
        all.into_iter().filter(wanted).collect()
    }

    pub(super) fn found() -> Vec<Found> {
        let each = |runtime: Runtime| {
            of_runtime(runtime).into_iter().enumerate().map(move |(index, device)| {
                let device = Device::new(DispatchDevice::Cube(device));
                let name = catch_unwind(AssertUnwindSafe(|| identity(&device)));
                Found {
                    device: DeviceChoice { runtime, index: Some(index) },
                    name: name.unwrap_or_else(|_| "cannot be opened".to_owned()),
                    memory_bytes: memory_bytes(&device),
                }
            })
        };
        [Runtime::Wgpu, Runtime::Cuda, Runtime::Rocm].into_iter().flat_map(each).collect()
    }

    fn identity(device: &Device) -> String {
        device.identity().map_or_else(|| "nameless".to_owned(), |identity| identity.name)
    }

    pub(super) fn name_of(device: &Device) -> String {
        let part =
            catch_unwind(AssertUnwindSafe(|| identity(device))).unwrap_or_else(|_| "cannot be opened".to_owned());
        let runtime = match of_dispatch(device) {
            Some(CubeDevice::Cuda(_)) => Runtime::Cuda,
            Some(CubeDevice::Hip(_)) => Runtime::Rocm,
            _ => Runtime::Wgpu,
        };
        format!("{} ({part})", runtime.name())
    }

    pub(super) fn memory_bytes(device: &Device) -> Option<u64> {
        let client = catch_unwind(AssertUnwindSafe(|| of_dispatch(device).map(|device| device.client())));
        client.ok().flatten().and_then(|client| client.properties().memory.max_memory())
    }

    #[derive(Default)]
    struct Count(AtomicU64);

    impl LaunchObserver for Count {
        fn launched(&self, _: &'static str) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn launches<T>(work: impl FnOnce() -> T) -> (T, u64) {
        let count = Arc::new(Count::default());
        let watching = LaunchObservation::new(count.clone());
        let done = work();
        drop(watching);
        (done, count.0.load(Ordering::Relaxed))
    }

    fn of_dispatch(device: &Device) -> Option<CubeDevice> {
        match device.as_dispatch() {
            DispatchDevice::Cube(device) => Some(device.clone()),
            DispatchDevice::Autodiff(inner) => match &**inner {
                DispatchDevice::Cube(device) => Some(device.clone()),
                _ => None,
            },
            _ => None,
        }
    }
}

/// A build for the CPU alone.
#[cfg(not(feature = "cube"))]
mod cube {
    use super::{Device, DeviceChoice, DeviceError, Found};

    pub(super) fn open(asked: DeviceChoice) -> Result<Device, DeviceError> {
        Err(DeviceError::NotBuilt { asked, feature: asked.runtime.name() })
    }

    pub(super) fn found() -> Vec<Found> {
        Vec::new()
    }

    pub(super) fn name_of(_: &Device) -> String {
        "unknown".to_owned()
    }

    pub(super) fn memory_bytes(_: &Device) -> Option<u64> {
        None
    }

    pub(super) fn launches<T>(work: impl FnOnce() -> T) -> (T, u64) {
        (work(), 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for text in ["cpu", "wgpu", "wgpu:1", "vulkan", "metal", "cuda", "cuda:3", "rocm:0"] {
            assert_eq!(text.parse::<DeviceChoice>().map(|choice| choice.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "gpu", "cpu:0", "cuda:", "cuda:-1", "cuda:x", "CUDA"] {
            assert!(text.parse::<DeviceChoice>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_driver_that_has_no_memory_left_is_told_from_one_that_fails() {
        for said in [
            "out of device memory allocating 12 bytes\nat x",
            "An out-of-memory error happened",
            "can't allocate buffer of size: 9",
        ] {
            assert_eq!(
                failure("wgpu (x)".to_owned(), said),
                DeviceError::OutOfMemory { device: "wgpu (x)".to_owned() }
            );
        }
        let failed = failure(
            "wgpu (x)".to_owned(),
            "Error while reading\nCaused by:\n  a launch\nCaused by:\n  device lost\nat y",
        );
        assert_eq!(failed.to_string(), "wgpu (x) failed: device lost; hint: `--device cpu` computes the same");
    }
}
