//! Price rows as Python dicts.

use std::sync::Arc;

use crate::prelude::*;
use pyo3::exceptions::PyValueError;

use crate::convert::json::to_raw;
use crate::data::extract;
use crate::records::TokenUsage;
use crate::to_python::ToPython;
use turntree_core::json::{RawJson, describe_part};
use turntree_core::message;
use turntree_upp::pricing::{Price, Prices};

/// Reads price rows from a list of dicts.
///
/// # Errors
/// `ValueError` for an invalid row.
pub(crate) fn rows_from(rows: &Bound<'_, PyAny>) -> PyResult<Vec<Price>> {
    let raw = to_raw(rows, "prices")?;
    raw.to().map_err(|error| PyValueError::new_err(format!("prices: {}", describe_part(&error))))
}

/// Return the price rows in use; the first matching row applies.
#[pyfunction]
pub(crate) fn price_rows(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let rows = RawJson::from_value(&*Prices::current())
        .map_err(|error| crate::convert::error::serialization(py, &error))?;
    rows.to_python(py)
}

/// Set the rows that have precedence over the built-in rows. Replaces earlier ones.
#[pyfunction]
pub(crate) fn set_price_rows(rows: &Bound<'_, PyAny>) -> PyResult<()> {
    Prices::set_current(Arc::new(Prices::built_in().with(rows_from(rows)?)));
    Ok(())
}

/// Return the cost of tokens by these rows, then by the rows in use. None if it is not certain.
#[pyfunction]
pub(crate) fn tokens_cost(
    usage: &Bound<'_, PyAny>,
    provider: &str,
    model: &str,
    rows: &Bound<'_, PyAny>,
) -> PyResult<Option<f64>> {
    let usage: Arc<message::TokenUsage> = extract::<TokenUsage>(usage, "usage")?;
    let prices = Prices::current().with(rows_from(rows)?);
    let cache_apart = provider == "anthropic";
    Ok(prices.find(provider, model).and_then(|price| price.cost(&usage, cache_apart)))
}
