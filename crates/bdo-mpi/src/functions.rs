//! The foreign functions, for either kind of handle: addresses in Open MPI, numbers in MPICH.

use crate::library::MpiError;
use libloading::Library;
use std::ffi::{c_char, c_int, c_void};
use std::path::Path;

/// `MPI_SUCCESS` in every implementation.
const SUCCESS: c_int = 0;
/// `MPI_THREAD_SERIALIZED` in every implementation: any thread may call, one at a time.
pub(crate) const SERIALIZED: c_int = 2;
/// Room for any text that MPI returns; the longest is the version of the library in MPICH.
const TEXT: usize = 8192;
/// Room for an `MPI_Status`, which is 20 to 24 bytes.
type Status = [u64; 16];

/// Handles that are there from the start: `MPI_Comm`, `MPI_Datatype`, `MPI_Request` and `MPI_Errhandler` are of one type in either
/// interface.
#[derive(Clone, Copy)]
pub(crate) struct Constants<H> {
    world: H,
    byte: H,
    errors_return: H,
}

/// The numbers of MPICH's binary interface.
pub(crate) const MPICH: Constants<c_int> =
    Constants { world: 0x4400_0000, byte: 0x4c00_010d, errors_return: 0x5400_0001 };

/// The addresses of Open MPI; `None` for a library that is not Open MPI.
pub(crate) fn open_mpi(library: &Library) -> Option<Constants<usize>> {
    let address = |name: &str| {
        // SAFETY: only the address of the symbol is taken; nothing is read through it.
        let symbol = unsafe { library.get::<*const c_char>(name) }.ok()?;
        Some(symbol.addr())
    };
    Some(Constants {
        world: address("ompi_mpi_comm_world")?,
        byte: address("ompi_mpi_byte")?,
        errors_return: address("ompi_mpi_errors_return")?,
    })
}

type Counts = *const c_int;

/// The functions of an open library, with the declarations of the MPI standard.
pub(crate) struct Functions<H> {
    constants: Constants<H>,
    init_thread: unsafe extern "C" fn(*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int) -> c_int,
    finalize: unsafe extern "C" fn() -> c_int,
    abort: unsafe extern "C" fn(H, c_int) -> c_int,
    comm_rank: unsafe extern "C" fn(H, *mut c_int) -> c_int,
    comm_size: unsafe extern "C" fn(H, *mut c_int) -> c_int,
    comm_set_errhandler: unsafe extern "C" fn(H, H) -> c_int,
    error_string: unsafe extern "C" fn(c_int, *mut c_char, *mut c_int) -> c_int,
    get_library_version: unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int,
    get_processor_name: unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int,
    iallgatherv: unsafe extern "C" fn(*const c_void, c_int, H, *mut c_void, Counts, Counts, H, H, *mut H) -> c_int,
    ialltoallv:
        unsafe extern "C" fn(*const c_void, Counts, Counts, H, *mut c_void, Counts, Counts, H, H, *mut H) -> c_int,
    test: unsafe extern "C" fn(*mut H, *mut c_int, *mut Status) -> c_int,
}

/// A function of the library, of the type that the place it goes to has.
macro_rules! function {
    ($library:expr, $path:expr, $name:literal) => {{
        // SAFETY: the type is the declaration of this function in the MPI standard.
        let found = unsafe { $library.get($name) };
        *found.map_err(|_| MpiError::NoFunction { library: $path.to_path_buf(), function: $name.to_owned() })?
    }};
}

/// Why a call did not end well.
#[derive(Clone, Copy)]
pub(crate) enum Failure {
    /// The function returned a code.
    Code(&'static str, c_int),
    /// The other ranks did not answer in time.
    TimedOut,
}

pub(crate) type Called<T> = Result<T, Failure>;

impl<H: Copy + Default> Functions<H> {
    /// Looks all functions up.
    pub(crate) fn of(library: &Library, path: &Path, constants: Constants<H>) -> Result<Self, MpiError> {
        Ok(Self {
            constants,
            init_thread: function!(library, path, "MPI_Init_thread"),
            finalize: function!(library, path, "MPI_Finalize"),
            abort: function!(library, path, "MPI_Abort"),
            comm_rank: function!(library, path, "MPI_Comm_rank"),
            comm_size: function!(library, path, "MPI_Comm_size"),
            comm_set_errhandler: function!(library, path, "MPI_Comm_set_errhandler"),
            error_string: function!(library, path, "MPI_Error_string"),
            get_library_version: function!(library, path, "MPI_Get_library_version"),
            get_processor_name: function!(library, path, "MPI_Get_processor_name"),
            iallgatherv: function!(library, path, "MPI_Iallgatherv"),
            ialltoallv: function!(library, path, "MPI_Ialltoallv"),
            test: function!(library, path, "MPI_Test"),
        })
    }

    /// Polls a request until it is done.
    fn wait(&self, mut request: H, wait: Wait<'_>) -> Called<()> {
        wait(&mut || {
            let (mut done, mut status): (c_int, Status) = (0, [0; 16]);
            // SAFETY: the request is one that is pending, and both places are ours and large enough.
            let code = unsafe { (self.test)(&raw mut request, &raw mut done, &raw mut status) };
            checked("MPI_Test", code, done != 0)
        })
    }
}

/// Bytes for every rank, one after another: where each begins and how long it is.
pub(crate) struct Blocks {
    counts: Vec<c_int>,
    places: Vec<c_int>,
}

impl Blocks {
    /// Of so many bytes each; `None` if the interface, which counts in 32 bits, cannot say it.
    pub(crate) fn of(bytes: &[usize]) -> Option<Self> {
        let (mut counts, mut places, mut at) = (Vec::new(), Vec::new(), 0usize);
        for &count in bytes {
            counts.push(c_int::try_from(count).ok()?);
            places.push(c_int::try_from(at).ok()?);
            at += count;
        }
        c_int::try_from(at).ok()?;
        Some(Self { counts, places })
    }

    fn bytes(&self) -> usize {
        self.counts.iter().map(|count| usize::try_from(*count).unwrap_or(0)).sum()
    }
}

/// What is asked of either kind of library.
pub(crate) trait Calls: Send {
    /// Starts MPI in this process.
    fn start(&self) -> Called<Started>;
    /// Ends MPI in this process once all have come here.
    fn finish(&self) -> Called<()>;
    /// Ends all processes.
    fn abort(&self, code: i32);
    /// Words for the code of an error.
    fn error(&self, code: c_int) -> String;
    /// Collects the bytes of all ranks, in their order; `wait` polls until the exchange is done.
    fn gather(&self, own: &[u8], all: &mut [u8], blocks: &Blocks, wait: Wait<'_>) -> Called<()>;
    /// Sends a block to every rank and receives one of each.
    fn exchange(&self, own: (&[u8], &Blocks), all: (&mut [u8], &Blocks), wait: Wait<'_>) -> Called<()>;
}

/// What a library says once it is started.
pub(crate) struct Started {
    /// The level of threads it offers.
    pub(crate) level: c_int,
    pub(crate) rank: usize,
    pub(crate) size: usize,
    pub(crate) version: String,
    pub(crate) node: String,
}

/// Polls a pending exchange until it is done.
pub(crate) type Wait<'a> = &'a dyn Fn(&mut dyn FnMut() -> Called<bool>) -> Called<()>;

fn checked<T>(call: &'static str, code: c_int, value: T) -> Called<T> {
    if code == SUCCESS { Ok(value) } else { Err(Failure::Code(call, code)) }
}

/// Where a buffer begins. An empty one begins at an address that Open MPI takes for `MPI_IN_PLACE`, so it gets another, which
/// is neither read nor written.
fn start(buffer: &[u8]) -> *const c_void {
    if buffer.is_empty() { NOTHING.as_ptr().cast() } else { buffer.as_ptr().cast() }
}

fn start_mut(buffer: &mut [u8]) -> *mut c_void {
    if buffer.is_empty() { NOTHING.as_ptr().cast_mut().cast() } else { buffer.as_mut_ptr().cast() }
}

static NOTHING: [u64; 1] = [0];

/// Text that a function writes.
fn text(write: impl Fn(*mut c_char, *mut c_int) -> c_int) -> String {
    let mut bytes = vec![0u8; TEXT];
    let mut length: c_int = 0;
    if write(bytes.as_mut_ptr().cast(), &raw mut length) != SUCCESS {
        return "unknown".to_owned();
    }
    bytes.truncate(usize::try_from(length).unwrap_or(0));
    String::from_utf8_lossy(&bytes).trim_end_matches('\0').trim().to_owned()
}

impl<H: Copy + Default + Send> Calls for Functions<H> {
    fn start(&self) -> Called<Started> {
        let (mut level, mut rank, mut size): (c_int, c_int, c_int) = (0, 0, 0);
        let Constants { world, errors_return, .. } = self.constants;
        // SAFETY: null pointers in the place of the arguments of `main` are allowed since MPI 2; `level` is ours.
        let code =
            unsafe { (self.init_thread)(std::ptr::null_mut(), std::ptr::null_mut(), SERIALIZED, &raw mut level) };
        checked("MPI_Init_thread", code, ())?;
        // SAFETY: MPI is started, and both handles are constants of the library.
        checked("MPI_Comm_set_errhandler", unsafe { (self.comm_set_errhandler)(world, errors_return) }, ())?;
        // SAFETY: as above, and `rank` is ours.
        checked("MPI_Comm_rank", unsafe { (self.comm_rank)(world, &raw mut rank) }, ())?;
        // SAFETY: as above, and `size` is ours.
        checked("MPI_Comm_size", unsafe { (self.comm_size)(world, &raw mut size) }, ())?;
        // SAFETY: the buffer of `text` is longer than the longest text of either library.
        let version = text(|bytes, length| unsafe { (self.get_library_version)(bytes, length) });
        // MPICH says how it was compiled, line after line.
        let version =
            version.lines().next().unwrap_or_default().split(", package").next().unwrap_or_default().to_owned();
        // SAFETY: as above.
        let node = text(|bytes, length| unsafe { (self.get_processor_name)(bytes, length) });
        let number = |found: c_int| usize::try_from(found).unwrap_or(0);
        Ok(Started { level, rank: number(rank), size: number(size), version, node })
    }

    fn finish(&self) -> Called<()> {
        // SAFETY: MPI is started and no exchange is pending.
        checked("MPI_Finalize", unsafe { (self.finalize)() }, ())
    }

    fn abort(&self, code: i32) {
        // SAFETY: MPI is started. The code it may return says that it could not; whoever calls ends the process anyway.
        unsafe { (self.abort)(self.constants.world, code) };
    }

    fn error(&self, code: c_int) -> String {
        // SAFETY: as for the version.
        text(|bytes, length| unsafe { (self.error_string)(code, bytes, length) })
    }

    fn gather(&self, own: &[u8], all: &mut [u8], blocks: &Blocks, wait: Wait<'_>) -> Called<()> {
        assert!(all.len() >= blocks.bytes(), "room for the bytes of all ranks");
        let Constants { world, byte, .. } = self.constants;
        let (mut request, length) = (H::default(), c_int::try_from(own.len()).unwrap_or(c_int::MAX));
        let (counts, places) = (blocks.counts.as_ptr(), blocks.places.as_ptr());
        let (from, to) = (start(own), start_mut(all));
        // SAFETY: the buffers hold what the counts say and stay borrowed until the request is done. After an error MPI is called
        // only to end the process, so that nothing moves a request on whose buffers are gone.
        let code = unsafe { (self.iallgatherv)(from, length, byte, to, counts, places, byte, world, &raw mut request) };
        checked("MPI_Iallgatherv", code, ())?;
        self.wait(request, wait)
    }

    fn exchange(&self, own: (&[u8], &Blocks), all: (&mut [u8], &Blocks), wait: Wait<'_>) -> Called<()> {
        assert!(own.0.len() >= own.1.bytes() && all.0.len() >= all.1.bytes(), "room for the bytes of all ranks");
        let Constants { world, byte, .. } = self.constants;
        let mut request = H::default();
        let (sent, sent_at) = (own.1.counts.as_ptr(), own.1.places.as_ptr());
        let (received, received_at) = (all.1.counts.as_ptr(), all.1.places.as_ptr());
        let (from, to) = (start(own.0), start_mut(all.0));
        // SAFETY: as for the gathering.
        let code = unsafe {
            (self.ialltoallv)(from, sent, sent_at, byte, to, received, received_at, byte, world, &raw mut request)
        };
        checked("MPI_Ialltoallv", code, ())?;
        self.wait(request, wait)
    }
}
