//! How a suite lists its cases once and gives them to a test program one by one.

/// Lists the cases of a suite: makes `cases()`, `run()` and the macro that turns each case into a test. The
/// first token is a `$`, which the macro that is made here needs for its own parameters.
macro_rules! suite {
    ($d:tt, $(#[$doc:meta])* $name:ident in $suite:ident for $factory:ident: $($module:ident::{$($case:ident),* $(,)?}),* $(,)?) => {
        /// A case of the suite: its name, and what it does with a factory. It panics if the case fails.
        pub type Case = (&'static str, fn(&dyn $factory));

        /// Every case, in the order in which they build on each other.
        pub fn cases() -> &'static [Case] {
            &[$($((stringify!($case), $module::$case),)*)*]
        }

        /// Runs one case by its name.
        ///
        /// # Panics
        ///
        /// The case fails, or there is none of this name.
        pub fn run(name: &str, factory: &dyn $factory) {
            let Some((_, case)) = cases().iter().find(|(known, _)| *known == name) else {
                panic!("the suite has no case `{name}`");
            };
            case(factory);
        }

        $(#[$doc])*
        #[macro_export]
        macro_rules! $name {
            ($d module:ident, $d factory:expr) => {
                mod $d module {
                    #[allow(unused_imports, reason = "the factory may be named by its whole path")]
                    use super::*;

                    $($(
                        #[test]
                        fn $case() {
                            $crate::$suite::run(stringify!($case), &$d factory);
                        }
                    )*)*
                }
            };
        }
    };
}

pub(crate) use suite;
