//! The instruction set a kernel runs on, chosen once per process.

use std::fmt;
use std::sync::OnceLock;

/// An instruction set for which every kernel is instantiated from the same source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Isa {
    /// Plain Rust on arrays of eight lanes; what a machine without AVX2 gets.
    Portable,
    /// 256-bit vectors with fused multiply-add.
    Avx2,
    /// 512-bit vectors.
    Avx512,
}

impl Isa {
    /// All instruction sets, slowest first, whether or not this machine has them.
    pub const ALL: [Self; 3] = [Self::Portable, Self::Avx2, Self::Avx512];

    /// The instruction set of this process: the fastest one available, or the one named by the environment variable
    /// `BDO_ISA` (`portable`, `avx2`, `avx512`). Read once.
    ///
    /// A name that is unknown or not available here is refused with a panic: a run that was asked for one instruction
    /// set must not silently use another, since results differ in the last bits.
    pub fn current() -> Self {
        static CURRENT: OnceLock<Isa> = OnceLock::new();
        *CURRENT.get_or_init(|| match std::env::var("BDO_ISA") {
            Ok(name) if !name.is_empty() => {
                let isa = Self::ALL
                    .into_iter()
                    .find(|isa| isa.to_string() == name)
                    .unwrap_or_else(|| panic!("BDO_ISA: expected portable, avx2 or avx512, found {name:?}"));
                assert!(isa.is_available(), "BDO_ISA: this machine does not have {isa}");
                isa
            }
            _ => Self::fastest(),
        })
    }

    /// The fastest instruction set this machine has.
    pub fn fastest() -> Self {
        Self::ALL.into_iter().rev().find(|isa| isa.is_available()).unwrap_or(Self::Portable)
    }

    /// Whether this machine can run it.
    #[inline]
    pub fn is_available(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                Self::Avx2.is_available()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            }
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }

    /// The instruction sets tests can run here.
    pub fn available() -> Vec<Self> {
        Self::ALL.into_iter().filter(|isa| isa.is_available()).collect()
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        })
    }
}

/// Writes one kernel for every instruction set.
///
/// `fn name<V>(args) -> R { body }` becomes `fn name(isa: Isa, args) -> R`. The body is inlined into one wrapper per
/// instruction set, where `V` is the vector type of that set, so the compiler may use its registers throughout.
/// A closure inside a body would fall outside the wrapper's features: bodies use plain loops.
macro_rules! vectorised {
    ($(#[$meta:meta])* $vis:vis fn $name:ident<$V:ident>($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        #[allow(clippy::too_many_arguments)]
        $vis fn $name(isa: $crate::isa::Isa, $($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            #[allow(clippy::inline_always, clippy::too_many_arguments)]
            fn body<$V: $crate::vector::Vector>($($arg: $ty),*) $(-> $ret)? $body
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            #[allow(clippy::too_many_arguments)]
            fn avx2($($arg: $ty),*) $(-> $ret)? { body::<$crate::vector::avx2::Avx2>($($arg),*) }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
            #[allow(clippy::too_many_arguments)]
            fn avx512($($arg: $ty),*) $(-> $ret)? { body::<$crate::vector::avx512::Avx512>($($arg),*) }
            assert!(isa.is_available(), "this machine does not have {isa}");
            match isa {
                // SAFETY: the assertion above established that this machine has the wrapper's features.
                #[cfg(target_arch = "x86_64")]
                $crate::isa::Isa::Avx2 => unsafe { avx2($($arg),*) },
                // SAFETY: as for AVX2.
                #[cfg(target_arch = "x86_64")]
                $crate::isa::Isa::Avx512 => unsafe { avx512($($arg),*) },
                _ => body::<$crate::vector::portable::Portable>($($arg),*),
            }
        }
    };
}
pub(crate) use vectorised;
