//! The face that everything that is data shows to Python: dump, validate, JSON Schema, pickling, equality, hashing,
//! short and HTML reprs. Written once, on [`Data`], which every data class extends.

use std::any::Any;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use pyo3::PyClass;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::convert::any::tree_to_python;
use super::convert::json::{document_raw, document_text, json_to_python, limits};
use super::dump::{self, Dump};
use turntree_core::json::schema::{self, JsonSchema};

/// A Rust value behind a Python handle.
pub(crate) trait Value: Send + Sync + 'static {
    /// Its JSON.
    fn json(&self) -> serde_json::Result<String>;
    /// Whether both are the same type and equal.
    fn same_as(&self, other: &dyn Value) -> bool;
    /// For downcasts.
    fn any(&self) -> &dyn Any;
    /// For downcasts that share.
    fn shared(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<T: Serialize + PartialEq + Send + Sync + 'static> Value for T {
    fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }

    fn same_as(&self, other: &dyn Value) -> bool {
        other.any().downcast_ref::<T>().is_some_and(|other| other == self)
    }

    fn any(&self) -> &dyn Any {
        self
    }

    fn shared(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

/// Base class of everything that is data. Frozen handles on shared memory: attributes are converted when read.
#[pyclass(frozen, subclass, module = "turntree._core")]
pub(crate) struct Data {
    value: Arc<dyn Value>,
}

impl Data {
    /// A handle on a value.
    pub(crate) fn new(value: Arc<dyn Value>) -> Self {
        Self { value }
    }

    /// The JSON of the value.
    ///
    /// # Errors
    /// `turntree.SerializationError`.
    pub(crate) fn to_json(&self, py: Python<'_>) -> PyResult<String> {
        self.value.json().map_err(|error| super::error::serialization(py, &error))
    }

    /// The value as its type.
    pub(crate) fn value<T: 'static>(&self) -> Option<&T> {
        self.value.any().downcast_ref()
    }

    /// The value as its type, shared.
    pub(crate) fn share<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        Arc::clone(&self.value).shared().downcast().ok()
    }
}

/// The value behind a handle whose class fixes its type.
///
/// # Errors
/// `TypeError`, which only a class that was wrapped around the wrong type could cause.
pub(crate) fn value_of<'a, T: 'static>(handle: &'a Bound<'_, Data>) -> PyResult<&'a T> {
    handle.get().value().ok_or_else(|| PyTypeError::new_err("the handle holds another type of value"))
}

/// A Python class over one type of value.
pub(crate) trait DataClass: PyClass {
    /// What its handles hold.
    type Value: Serialize + DeserializeOwned + JsonSchema + PartialEq + Send + Sync + 'static;

    /// Whether values never change, so that they may be hashed.
    const FROZEN: bool = true;

    /// A handle on a value.
    ///
    /// # Errors
    /// Only when Python fails, as out of memory.
    fn wrap(py: Python<'_>, value: Arc<Self::Value>) -> PyResult<Py<PyAny>>;

    /// Refuses values that the type can hold but the class must not, as another kind of message.
    ///
    /// # Errors
    /// The place and the rule.
    fn accept(_value: &Self::Value) -> Result<(), turntree_core::json::ParseError> {
        Ok(())
    }

    /// The schema of the class.
    fn json_schema() -> serde_json::Value {
        schema::document::<Self::Value>()
    }
}

/// Reads a value from JSON text.
///
/// # Errors
/// `turntree.ValidationError`.
pub(crate) fn parse<C: DataClass>(py: Python<'_>, text: &str) -> PyResult<C::Value> {
    let value = turntree_core::json::parse::<C::Value>(text, &limits())
        .and_then(|value| C::accept(&value).map(|()| value))
        .map_err(|error| super::error::validation(py, &error, Some(text)))?;
    Ok(value)
}

/// A value from a handle of the class or from plain data.
///
/// # Errors
/// `TypeError` naming the argument for what is not JSON; `turntree.ValidationError` for another shape.
pub(crate) fn extract<C: DataClass>(value: &Bound<'_, PyAny>, what: &str) -> PyResult<Arc<C::Value>> {
    if let Ok(data) = value.cast::<Data>()
        && let Some(shared) = data.get().share::<C::Value>()
    {
        C::accept(&shared).map_err(|error| super::error::validation(value.py(), &error, None))?;
        return Ok(shared);
    }
    let raw = document_raw(value, what)?;
    let read = turntree_core::json::parse::<C::Value>(raw.get(), &limits())
        .and_then(|value| C::accept(&value).map(|()| value));
    read.map(Arc::new).map_err(|error| super::error::argument(value.py(), &error, what, raw.get()))
}

/// What the shared face must know of a class.
struct ClassEntry {
    parse: fn(Python<'_>, &str) -> PyResult<Py<PyAny>>,
    schema: fn() -> serde_json::Value,
    frozen: bool,
}

static REGISTRY: PyOnceLock<HashMap<usize, ClassEntry>> = PyOnceLock::new();

/// Collects the classes of the module.
#[derive(Default)]
pub(crate) struct ClassRegistry(HashMap<usize, ClassEntry>);

impl ClassRegistry {
    /// Adds a class.
    pub(crate) fn add<C: DataClass>(&mut self, py: Python<'_>) {
        let face = ClassEntry {
            parse: |py, text| C::wrap(py, Arc::new(parse::<C>(py, text)?)),
            schema: C::json_schema,
            frozen: C::FROZEN,
        };
        self.0.insert(py.get_type::<C>().as_type_ptr() as usize, face);
    }

    /// Makes them known. Once a process.
    pub(crate) fn publish(self, py: Python<'_>) {
        REGISTRY.get_or_init(py, || self.0);
    }
}

fn entry_of(class: &Bound<'_, PyType>) -> PyResult<&'static ClassEntry> {
    REGISTRY.get(class.py()).and_then(|faces| faces.get(&(class.as_type_ptr() as usize))).ok_or_else(|| {
        PyTypeError::new_err(format!("{class} is not a data class; use one of its subclasses"))
    })
}

#[pymethods]
impl Data {
    /// The value as a dict.
    #[pyo3(signature = (*, mode = "python", by_alias = true, exclude_none = false))]
    fn model_dump<'py>(
        slf: &Bound<'py, Self>,
        mode: &str,
        by_alias: bool,
        exclude_none: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let plain = json_to_python(py, &slf.get().to_json(slf.py())?)?.into_bound(py);
        let python = match mode {
            "python" => true,
            "json" => false,
            other => {
                let message = format!("mode must be \"python\" or \"json\", not \"{other}\"");
                return Err(pyo3::exceptions::PyValueError::new_err(message));
            }
        };
        if !python && by_alias && !exclude_none {
            return Ok(plain);
        }
        let schema = (entry_of(&slf.get_type())?.schema)();
        Dump { schema: &schema, python, by_alias, exclude_none, from_names: false }.apply(&plain)
    }

    /// The value as JSON text.
    #[pyo3(signature = (*, indent = None, by_alias = true, exclude_none = false))]
    fn model_dump_json(
        slf: &Bound<'_, Self>,
        indent: Option<usize>,
        by_alias: bool,
        exclude_none: bool,
    ) -> PyResult<String> {
        let mut text = slf.get().to_json(slf.py())?;
        if !by_alias || exclude_none {
            let plain = Self::model_dump(slf, "json", by_alias, exclude_none)?;
            document_raw(&plain, "value")?.get().clone_into(&mut text);
        }
        Ok(indent.map_or_else(|| text.clone(), |indent| dump::indented(&text, indent)))
    }

    /// A value from an instance or from plain data, keys as the specification or as Python spells them.
    #[classmethod]
    fn model_validate(class: &Bound<'_, PyType>, obj: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        if obj.is_instance(class)? {
            return Ok(obj.clone().unbind());
        }
        let face = entry_of(class)?;
        let text = document_raw(obj, "obj")?;
        let error = match (face.parse)(class.py(), text.get()) {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        // Perhaps it is written with Python's names, as `model_dump(by_alias=False)` gives.
        let schema = (face.schema)();
        let plain = json_to_python(class.py(), text.get())?.into_bound(class.py());
        let dump =
            Dump { schema: &schema, python: false, by_alias: true, exclude_none: false, from_names: true };
        let renamed = document_raw(&dump.apply(&plain)?, "obj")?;
        if renamed == text {
            return Err(error);
        }
        (face.parse)(class.py(), renamed.get())
    }

    /// A value from JSON text.
    #[classmethod]
    fn model_validate_json(class: &Bound<'_, PyType>, json_data: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        if json_data.is_instance_of::<PyDict>() {
            return Err(PyTypeError::new_err(
                "json_data must be str or bytes; use model_validate for a dict",
            ));
        }
        (entry_of(class)?.parse)(class.py(), &document_text(json_data, "json_data")?)
    }

    /// JSON Schema (2020-12) of the class.
    #[classmethod]
    fn model_json_schema(class: &Bound<'_, PyType>) -> PyResult<Py<PyAny>> {
        tree_to_python(class.py(), &(entry_of(class)?.schema)())
    }

    /// Plain Python data.
    fn to_dict(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        json_to_python(py, &self.to_json(py)?)
    }

    /// JSON text.
    #[pyo3(name = "to_json")]
    fn to_json_text(&self, py: Python<'_>) -> PyResult<String> {
        self.to_json(py)
    }

    /// A value from `str`, `bytes` or a dict.
    #[classmethod]
    fn from_json(class: &Bound<'_, PyType>, data: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        (entry_of(class)?.parse)(class.py(), &document_text(data, "data")?)
    }

    /// Gives pydantic the schema of the class; only pydantic calls it.
    #[classmethod]
    fn __get_pydantic_core_schema__<'py>(
        class: &Bound<'py, PyType>,
        _source: &Bound<'py, PyAny>,
        _handler: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = class.py();
        py.import(intern!(py, "turntree._pydantic"))?.getattr(intern!(py, "core_schema_of"))?.call1((class,))
    }

    /// Gives pydantic the JSON Schema of the class; only pydantic calls it.
    #[classmethod]
    fn __get_pydantic_json_schema__<'py>(
        class: &Bound<'py, PyType>,
        _core_schema: &Bound<'py, PyAny>,
        handler: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = class.py();
        py.import(intern!(py, "turntree._pydantic"))?
            .getattr(intern!(py, "json_schema_of"))?
            .call1((class, handler))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let restore = py.import(intern!(py, "turntree._core"))?.getattr(intern!(py, "_restore"))?;
        let arguments = (slf.get_type(), slf.get().to_json(slf.py())?).into_pyobject(py)?;
        (restore, arguments).into_pyobject(py)
    }

    fn __copy__(slf: Py<Self>, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Self::__deepcopy__(slf, py, None)
    }

    #[pyo3(signature = (_memo = None))]
    fn __deepcopy__(slf: Py<Self>, py: Python<'_>, _memo: Option<&Bound<'_, PyAny>>) -> PyResult<Py<PyAny>> {
        let class = slf.bind(py).get_type();
        let face = entry_of(&class)?;
        if face.frozen {
            return Ok(slf.into_any());
        }
        (face.parse)(py, &slf.get().to_json(py)?)
    }

    fn __richcmp__(&self, py: Python<'_>, other: &Bound<'_, PyAny>, compare: CompareOp) -> Py<PyAny> {
        let same = other.cast::<Self>().is_ok_and(|other| self.value.same_as(&*other.get().value));
        match compare {
            CompareOp::Eq => same.into_pyobject(py).map(|truth| truth.to_owned().into_any().unbind()),
            CompareOp::Ne => (!same).into_pyobject(py).map(|truth| truth.to_owned().into_any().unbind()),
            _ => return py.NotImplemented(),
        }
        .unwrap_or_else(|never| match never {})
    }

    fn __hash__(slf: &Bound<'_, Self>) -> PyResult<u64> {
        let class = slf.get_type();
        if !entry_of(&class)?.frozen {
            return Err(PyTypeError::new_err(format!("unhashable type: '{}'", class.name()?)));
        }
        let tree: serde_json::Value = serde_json::from_str(&slf.get().to_json(slf.py())?).unwrap_or_default();
        let mut hasher = DefaultHasher::new();
        hash_tree(&tree, &mut hasher);
        Ok(hasher.finish())
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        Ok(dump::repr(&slf.get_type().name()?.to_string(), &slf.get().to_json(slf.py())?))
    }

    /// Shows the value in a notebook.
    fn _repr_html_(slf: &Bound<'_, Self>) -> PyResult<String> {
        Ok(dump::html(&slf.get_type().name()?.to_string(), &slf.get().to_json(slf.py())?))
    }
}

/// Equal trees hash alike: the order of members does not count.
fn hash_tree(tree: &serde_json::Value, hasher: &mut DefaultHasher) {
    match tree {
        serde_json::Value::Object(members) => {
            let mut sum = 0_u64;
            for (key, value) in members {
                let mut member = DefaultHasher::new();
                key.hash(&mut member);
                hash_tree(value, &mut member);
                sum = sum.wrapping_add(member.finish());
            }
            sum.hash(hasher);
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| hash_tree(item, hasher)),
        scalar => scalar.to_string().hash(hasher),
    }
}

/// Rebuilds a pickled value.
#[pyfunction]
pub(crate) fn _restore(class: &Bound<'_, PyType>, text: &str) -> PyResult<Py<PyAny>> {
    (entry_of(class)?.parse)(class.py(), text)
}
