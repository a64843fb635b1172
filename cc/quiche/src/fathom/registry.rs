//! Registry of the controllers chosen so far. They are identified by numbers, because quiche's
//! algorithms are plain numbers that are copied.

use std::sync::{Arc, PoisonError, RwLock};

use fathom_cc::ControllerConfig;
use fathom_plugin::PluginError;

use crate::CongestionControlAlgorithm;

/// Prefix that selects our controller if stock has a controller of the same name.
const PREFIX: &str = "fathom:";

#[derive(Default)]
struct Registry {
    configs: Vec<Arc<dyn ControllerConfig>>,
    /// Numbers of the controllers chosen by name, so that an application that sets a name for each
    /// connection does not fill the memory.
    named: Vec<(String, u32)>,
}

static REGISTRY: RwLock<Registry> =
    RwLock::new(Registry { configs: Vec::new(), named: Vec::new() });

impl Registry {
    fn add(&mut self, config: Arc<dyn ControllerConfig>) -> u32 {
        let known = self.configs.iter().position(|known| Arc::ptr_eq(known, &config));
        known.unwrap_or_else(|| {
            self.configs.push(config);
            self.configs.len() - 1
        }) as u32
    }
}

/// Returns the algorithm with this name and options: one of ours, such as `sync:signal=either` or
/// `fathom:reno`, or one of stock's.
///
/// # Errors
/// Returns an error if the name or an option is wrong. Its single line says what to write instead.
///
/// ```
/// let algorithm = quiche::fathom::algorithm("sync:signal=either")?;
/// let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION).unwrap();
/// config.set_cc_algorithm(algorithm);
/// assert!(quiche::fathom::algorithm("snyc").unwrap_err().to_string().contains("sync"));
/// # Ok::<(), quiche::fathom::PluginError>(())
/// ```
pub fn algorithm(spec: &str) -> Result<CongestionControlAlgorithm, PluginError> {
    if let Some(stock) = CongestionControlAlgorithm::of_stock(spec) {
        return Ok(stock);
    }
    let spec = spec.trim();
    let config = fathom_cc::catalogue::parse(spec.strip_prefix(PREFIX).unwrap_or(spec))?;
    check(&*config)?;
    let name = config.spec();
    let mut registry = REGISTRY.write().unwrap_or_else(PoisonError::into_inner);
    let known = registry.named.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
    let number = known.unwrap_or_else(|| {
        let number = registry.add(config);
        registry.named.push((name, number));
        number
    });
    Ok(CongestionControlAlgorithm::Fathom(number))
}

/// Returns the algorithm of this configuration. The configuration is kept permanently, so call this
/// function once rather than for each connection.
///
/// # Errors
/// Returns an error if quiche lacks capabilities that the controller requires.
pub fn algorithm_of(
    config: Arc<dyn ControllerConfig>,
) -> Result<CongestionControlAlgorithm, PluginError> {
    check(&*config)?;
    Ok(CongestionControlAlgorithm::Fathom(
        REGISTRY.write().unwrap_or_else(PoisonError::into_inner).add(config),
    ))
}

fn check(config: &dyn ControllerConfig) -> Result<(), PluginError> {
    config
        .check(super::PROVIDED)
        .map_err(|missing| PluginError::Missing { missing, shaping_socket_suffices: false })
}

/// Returns the configuration with a number.
pub(crate) fn controller_config(
    algorithm: CongestionControlAlgorithm,
) -> Option<Arc<dyn ControllerConfig>> {
    let CongestionControlAlgorithm::Fathom(number) = algorithm else { return None };
    REGISTRY.read().unwrap_or_else(PoisonError::into_inner).configs.get(number as usize).cloned()
}

/// Returns the algorithm like [`algorithm`], for quiche's own setters. Their error has no text, so
/// the reason is logged.
pub(crate) fn named(name: &str) -> crate::Result<CongestionControlAlgorithm> {
    algorithm(name).map_err(|e| {
        log::error!("congestion control: {e}");
        crate::Error::CongestionControl
    })
}
