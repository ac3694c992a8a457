//! [`ToPython`]: Rust values as the Python values of attributes; [`data_class`] defines a data class.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::prelude::*;
use pyo3::intern;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple, PyType};

use super::convert::json::json_to_python;
use turntree_core::intern::InternedStr;
use turntree_core::json::{RawJson, RawObject};
use turntree_core::message::media::Binary;
use turntree_core::time::Timestamp;

/// A type whose values are attributes of data classes.
pub(crate) trait ToPython {
    /// The Python value.
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>>;
}

macro_rules! plain {
    ($($type:ty),*) => {
        $(impl ToPython for $type {
            fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
                Ok(self.into_pyobject(py)?.to_owned().into_any())
            }
        })*
    };
}

plain!(bool, u32, u64, usize, i64, f64);

impl ToPython for str {
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(PyString::new(py, self).into_any())
    }
}

macro_rules! as_target {
    ($([$($parameter:tt)*] $type:ty),*) => {
        $(impl<$($parameter)*> ToPython for $type {
            fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
                (**self).to_python(py)
            }
        })*
    };
}

as_target!([] String, [] Arc<str>, [] InternedStr, [T: ToPython + ?Sized] Box<T>, [T: ToPython + ?Sized] &T);

/// Raises the error.
impl<T: ToPython> ToPython for PyResult<T> {
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Ok(value) => value.to_python(py),
            Err(error) => Err(error.clone_ref(py)),
        }
    }
}

impl ToPython for Timestamp {
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        super::time::to_datetime(py, *self)
    }
}

impl ToPython for Binary {
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(PyBytes::new(py, self.as_slice()).into_any())
    }
}

impl ToPython for RawJson {
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(json_to_python(py, self.get())?.into_bound(py))
    }
}

impl ToPython for RawObject {
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let dict = pyo3::types::PyDict::new(py);
        for (key, value) in self.iter() {
            dict.set_item(key, value.to_python(py)?)?;
        }
        Ok(dict.into_any())
    }
}

impl<T: ToPython> ToPython for Option<T> {
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.as_ref().map_or_else(|| Ok(py.None().into_bound(py)), |value| value.to_python(py))
    }
}

/// A tuple, because data classes are frozen: a list would look as if it could be changed.
impl<T: ToPython> ToPython for [T] {
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let items = self.iter().map(|item| item.to_python(py)).collect::<PyResult<Vec<_>>>()?;
        Ok(PyTuple::new(py, items)?.into_any())
    }
}

impl<T: ToPython> ToPython for Vec<T> {
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let items = self.iter().map(|item| item.to_python(py)).collect::<PyResult<Vec<_>>>()?;
        Ok(PyList::new(py, items)?.into_any())
    }
}

impl<T: ToPython + Clone> ToPython for imbl::Vector<T> {
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let items = self.iter().map(|item| item.to_python(py)).collect::<PyResult<Vec<_>>>()?;
        Ok(PyList::new(py, items)?.into_any())
    }
}

/// Defines read-only attributes of a class as a table.
///
/// - `attributes! { Class { name, other = function, } }` reads a field of the value that `Class::of` returns, or calls a
///   function with that value.
/// - `attributes! { Class(slf) { name = expression; } }` evaluates an expression. `slf` is the instance in it.
macro_rules! attributes {
    ($class:ident { $( $(#[doc = $doc:expr])* $name:ident $(= $read:expr)? ),* $(,)? }) => {
        $crate::to_python::attributes! { $class(slf) { $(
            $(#[doc = $doc])*
            $name = $crate::to_python::attributes!(@read Self::of(slf)?, $name $(, $read)?);
        )* } }
    };
    ($class:ident($slf:ident) { $( $(#[doc = $doc:expr])* $name:ident = $value:expr; )* }) => {
        #[pymethods]
        impl $class {
            $(
                $(#[doc = $doc])*
                #[getter]
                fn $name<'py>($slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
                    $crate::to_python::ToPython::to_python(&$value, $slf.py())
                }
            )*
        }
    };
    (@read $value:expr, $name:ident) => { $value.$name };
    (@read $value:expr, $name:ident, $read:expr) => { $crate::to_python::read($value, $read) };
}
pub(crate) use attributes;

/// Calls `read`, which may be a closure without types.
pub(crate) fn read<'a, T, R>(value: &'a T, read: impl FnOnce(&'a T) -> R) -> R {
    read(value)
}

/// Defines a Python data class over one type of value, with [`attributes`]. `type` is the class attribute `type`, `inside` the
/// levels around the value in a document.
///
/// Further methods follow the attributes, as in `#[pymethods]`.
macro_rules! data_class {
    (
        $(#[doc = $doc:literal])*
        $class:ident as $name:literal in $module:literal over $value:ty $(, type $kind:literal)? $(, inside $levels:ident)? {
            $($attributes:tt)*
        }
        $($methods:tt)*
    ) => {
        $(#[doc = $doc])*
        #[pyclass(frozen, extends = $crate::data::Data, name = $name, module = $module)]
        pub(crate) struct $class;

        impl $crate::data::DataClass for $class {
            type Value = $value;
            $( const OUTER_LEVELS: usize = $crate::data::levels::$levels; )?
            fn wrap(py: Python<'_>, value: std::sync::Arc<$value>) -> PyResult<Py<PyAny>> {
                let base = PyClassInitializer::from($crate::data::Data::new(value));
                Ok(Py::new(py, base.add_subclass(Self))?.into_any())
            }
        }

        impl $class {
            /// The value of an instance.
            #[allow(dead_code, clippy::allow_attributes, reason = "some classes have no attributes of their own")]
            fn of<'a>(slf: &'a Bound<'_, Self>) -> PyResult<&'a $value> {
                $crate::data::value_of(slf.as_super())
            }

            /// A new instance, for constructors.
            #[allow(dead_code, clippy::allow_attributes, reason = "some classes have no constructor")]
            fn holding(value: $value) -> PyClassInitializer<Self> {
                let base = $crate::data::Data::new(std::sync::Arc::new(value));
                PyClassInitializer::from(base).add_subclass(Self)
            }
        }

        impl $crate::to_python::ToPython for $value {
            fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
                let value = std::sync::Arc::new(self.clone());
                Ok(<$class as $crate::data::DataClass>::wrap(py, value)?.into_bound(py))
            }
        }

        $crate::to_python::attributes! { $class { $($attributes)* } }

        #[pymethods]
        impl $class {
            $(
                #[classattr]
                #[pyo3(name = "type")]
                const KIND: &'static str = $kind;
            )?
            $($methods)*
        }
    };
}
pub(crate) use data_class;

impl<T: ToPython> ToPython for BTreeMap<String, T> {
    fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let dict = PyDict::new(py);
        for (name, value) in self {
            dict.set_item(name, value.to_python(py)?)?;
        }
        Ok(dict.into_any())
    }
}

/// `Class[item]` as annotations use it.
///
/// # Errors
/// Only if Python fails, for example out of memory.
pub(crate) fn generic_alias<'py>(
    class: &Bound<'py, PyType>,
    item: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let alias =
        class.py().import(intern!(class.py(), "types"))?.getattr(intern!(class.py(), "GenericAlias"))?;
    alias.call1((class, item))
}
