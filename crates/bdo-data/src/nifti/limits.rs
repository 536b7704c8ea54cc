//! How much a file may claim.

/// Bounds that are checked before anything is allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes a scan may hold once decompressed: a guard against nonsense, since images are read piece by piece and a
    /// whole one is never held.
    pub scan_bytes: u64,
    /// Most bytes of one volume, counted with at least four bytes a voxel because volumes are handed out as `f32`.
    pub volume_bytes: u64,
    /// Most decompressed bytes per byte of the file. Measured images lie between 2 and 10; deflate can do 1032.
    pub compression_ratio: u64,
    /// Below this size the ratio is not looked at: an empty mask compresses a thousandfold and harms nobody.
    pub ratio_free_bytes: u64,
    /// Most bytes after the image data; some writers leave a few.
    pub trailing_bytes: u64,
    /// Most bytes of extensions, which hold the XML of a CIFTI file (a few MiB in real ones).
    pub extension_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            scan_bytes: 1 << 40,
            volume_bytes: 256 << 20,
            compression_ratio: 200,
            ratio_free_bytes: 64 << 20,
            trailing_bytes: 16 << 20,
            extension_bytes: 64 << 20,
        }
    }
}
