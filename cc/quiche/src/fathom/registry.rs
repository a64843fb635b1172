//! Controllers chosen so far, by number: quiche's algorithms are plain numbers that are copied about.

use std::sync::{Arc, PoisonError, RwLock};

use fathom_cc::ControllerConfig;
use fathom_plugin::PluginError;

use crate::CongestionControlAlgorithm;

/// One of ours where stock has the same name.
const PREFIX: &str = "fathom:";

#[derive(Default)]
struct ParsedOptions {
    configs: Vec<Arc<dyn ControllerConfig>>,
    /// What was chosen by name, and its number: an application that sets a name per connection does not fill memory.
    named: Vec<(String, u32)>,
}

static CHOSEN: RwLock<ParsedOptions> = RwLock::new(ParsedOptions { configs: Vec::new(), named: Vec::new() });

impl ParsedOptions {
    fn add(&mut self, controller_config: Arc<dyn ControllerConfig>) -> u32 {
        let known = self.configs.iter().position(|known| Arc::ptr_eq(known, &controller_config));
        known.unwrap_or_else(|| {
            self.configs.push(controller_config);
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
/// # Ok::<(), quiche::fathom::PlugError>(())
/// ```
pub fn algorithm(spec: &str) -> Result<CongestionControlAlgorithm, PluginError> {
    if let Some(stock) = CongestionControlAlgorithm::of_stock(spec) {
        return Ok(stock);
    }
    let spec = spec.trim();
    let controller_config = fathom_cc::catalogue::parse(spec.strip_prefix(PREFIX).unwrap_or(spec))?;
    check(&*controller_config)?;
    let name = controller_config.spec();
    let mut chosen = CHOSEN.write().unwrap_or_else(PoisonError::into_inner);
    let known = chosen.named.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
    let number = known.unwrap_or_else(|| {
        let number = chosen.add(controller_config);
        chosen.named.push((name, number));
        number
    });
    Ok(CongestionControlAlgorithm::Fathom(number))
}

/// The algorithm of this configuration. Its number is the configuration's for good: make it once, not per connection.
///
/// # Errors
/// quiche lacks what the controller needs.
pub fn algorithm_of(controller_config: Arc<dyn ControllerConfig>) -> Result<CongestionControlAlgorithm, PluginError> {
    check(&*controller_config)?;
    Ok(CongestionControlAlgorithm::Fathom(
        CHOSEN.write().unwrap_or_else(PoisonError::into_inner).add(controller_config),
    ))
}

fn check(controller_config: &dyn ControllerConfig) -> Result<(), PluginError> {
    controller_config.check(super::OFFERS).map_err(|missing| PluginError::Missing { missing, outlet_would_do: false })
}

/// What stands under a number.
pub(crate) fn controller_config(algorithm: CongestionControlAlgorithm) -> Option<Arc<dyn ControllerConfig>> {
    let CongestionControlAlgorithm::Fathom(number) = algorithm else { return None };
    CHOSEN.read().unwrap_or_else(PoisonError::into_inner).configs.get(number as usize).cloned()
}

/// As [`algorithm`], for quiche's own setters: their error has no text, so the log has it.
pub(crate) fn named(name: &str) -> crate::Result<CongestionControlAlgorithm> {
    algorithm(name).map_err(|e| {
        log::error!("congestion control: {e}");
        crate::Error::CongestionControl
    })
}
