//! The stacks' own controllers, by name.

macro_rules! native_controllers {
    ($stack:ident, {$($name:literal => $config:ty),* $(,)?}) => {
        #[doc = concat!(stringify!($stack), "'s own.")]
        pub mod $stack {
            use std::sync::Arc;

            use $stack::congestion::ControllerFactory;

            /// Their names.
            pub const NAMES: &[&str] = &[$($name),*];

            /// The one of this name.
            ///
            /// # Errors
            /// There is none; the message names those that there are.
            pub fn named(name: &str) -> Result<Arc<dyn ControllerFactory + Send + Sync>, String> {
                match name {
                    $($name => Ok(Arc::new(<$config>::default())),)*
                    _ => {
                        let own = NAMES.iter().map(|name| format!("native:{name}")).collect::<Vec<_>>().join(", ");
                        Err(format!("{} has no such controller of its own; it has {own}", stringify!($stack)))
                    }
                }
            }
        }
    };
}

native_controllers!(quinn, {
    "new-reno" => quinn::congestion::NewRenoConfig,
    "cubic" => quinn::congestion::CubicConfig,
    "bbr" => quinn::congestion::BbrConfig,
});

native_controllers!(noq, {
    "new-reno" => noq::congestion::NewRenoConfig,
    "cubic" => noq::congestion::CubicConfig,
    "bbr3" => noq::congestion::Bbr3Config,
});
