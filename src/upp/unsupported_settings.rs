//! Warns about settings that a vendor does not have: Python's `warnings`, and the logger `turntree.upp`, once for each.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use crate::prelude::*;
use pyo3::intern;

use crate::bridge::gil;
use turntree_upp::settings::{SettingObserver, UnsupportedSetting, set_setting_observer};

const LOGGER: &str = "turntree.upp";

/// Remembers which settings were logged.
#[derive(Default)]
struct Warnings {
    logged: Mutex<HashSet<(String, String)>>,
}

impl SettingObserver for Warnings {
    fn unsupported(&self, setting: &UnsupportedSetting) {
        let UnsupportedSetting { name, provider, reason } = setting;
        let text = format!("settings.{name} is not sent to {provider}: {reason}");
        let key = (name.clone(), provider.clone());
        let is_new = self.logged.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
        // A warning that is turned into an error must not fail the request.
        let _ = gil::if_held(|py| -> PyResult<()> {
            let warned = py.import(intern!(py, "warnings"))?.call_method1(intern!(py, "warn"), (&text,));
            if is_new {
                let logging = py.import(intern!(py, "logging"))?;
                let logger = logging.call_method1(intern!(py, "getLogger"), (LOGGER,))?;
                logger.call_method1(intern!(py, "warning"), ("%s", &text))?;
            }
            warned.map(drop)
        });
    }
}

/// Registers the observer, for the lifetime of the process.
pub(crate) fn install() {
    // A second import of the module finds the observer of the first, which does the same.
    let _ = set_setting_observer(Box::new(Warnings::default()));
}
