//! Controllers chosen so far, by number: quiche's algorithms are plain numbers that are copied about.

use std::sync::{Arc, PoisonError, RwLock};

use fathom_cc::ControllerConfig;
use fathom_plugin::PluginError;

use crate::CongestionControlAlgorithm;

/// One of ours where stock has the same name.
const PREFIX: &str = "fathom:";

#[derive(Default)]
struct Registry {
    configs: Vec<Arc<dyn ControllerConfig>>,
    /// What was chosen by name, and its number: an application that sets a name per connection does not fill memory.
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

/// The algorithm of this name and options: one of ours, such as `sync:signal=either` or `fathom:reno`, or one of stock's.
///
/// # Errors
/// The name or an option is wrong: one line that says what to write instead.
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

/// The algorithm of this configuration. Its number is the configuration's for good: make it once, not per connection.
///
/// # Errors
/// quiche lacks what the controller needs.
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

/// What stands under a number.
pub(crate) fn controller_config(
    algorithm: CongestionControlAlgorithm,
) -> Option<Arc<dyn ControllerConfig>> {
    let CongestionControlAlgorithm::Fathom(number) = algorithm else { return None };
    REGISTRY.read().unwrap_or_else(PoisonError::into_inner).configs.get(number as usize).cloned()
}

/// As [`algorithm`], for quiche's own setters: their error has no text, so the log has it.
pub(crate) fn named(name: &str) -> crate::Result<CongestionControlAlgorithm> {
    algorithm(name).map_err(|e| {
        log::error!("congestion control: {e}");
        crate::Error::CongestionControl
    })
}
