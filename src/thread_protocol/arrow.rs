//! Arrow columns, imported and exported without copying through the Arrow C data interface and its
//! `PyCapsule` protocol. Only arrays of text or binary, which have three buffers and no children.

#![expect(unsafe_code, reason = "the Arrow C data interface is memory that two libraries share by pointers")]

use std::ffi::{CStr, c_char, c_void};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;

use crate::prelude::*;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::types::PyCapsule;

use super::bulk::{Arguments, Callbacks, released};
use crate::to_python::ToPython;
use turntree_thread_protocol::bulk::{BorrowedColumn, Offsets, OutputColumn, values};

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";

/// `ARROW_FLAG_NULLABLE`.
const NULLABLE: i64 = 2;

/// `struct ArrowSchema` of the Arrow C data interface.
#[repr(C)]
struct ArrowSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut Self,
    dictionary: *mut Self,
    release: Option<unsafe extern "C" fn(*mut Self)>,
    private_data: *mut c_void,
}

/// `struct ArrowArray` of the Arrow C data interface.
#[repr(C)]
struct ArrowArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *const *const c_void,
    children: *mut *mut Self,
    dictionary: *mut Self,
    release: Option<unsafe extern "C" fn(*mut Self)>,
    private_data: *mut c_void,
}

// SAFETY: both hold only immutable memory that any thread may free.
unsafe impl Send for ArrowSchema {}
// SAFETY: as above.
unsafe impl Send for ArrowArray {}

impl Drop for ArrowSchema {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: a structure that has its function was not released and not moved away.
            unsafe { release(self) }
        }
    }
}

impl Drop for ArrowArray {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: a structure that has its function was not released and not moved away.
            unsafe { release(self) }
        }
    }
}

/// What an exported array keeps alive: its buffers, and the list of their addresses.
struct Exported {
    _column: Arc<OutputColumn>,
    _small: Option<Arc<Vec<i32>>>,
    buffers: [*const c_void; 3],
}

unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: called once, by the owner of the structure; its texts are static.
    unsafe { (*schema).release = None }
}

unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: called once, by the owner of the structure; the box was made for it in `ArrowColumn`.
    unsafe {
        drop(Box::from_raw((*array).private_data.cast::<Exported>()));
        (*array).release = None;
    }
}

/// A column for consumers of the Arrow C data interface.
#[pyclass(frozen, name = "_ArrowColumn", module = "turntree._core")]
pub(crate) struct ArrowColumn {
    column: Arc<OutputColumn>,
    /// The offsets with 32 bits, where the type has those.
    small: Option<Arc<Vec<i32>>>,
    format: &'static CStr,
}

#[pymethods]
impl ArrowColumn {
    /// Return the column as capsules of the Arrow C data interface.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        // A request that is not followed is allowed: the consumer casts.
        drop(requested_schema.cloned());
        let schema = ArrowSchema {
            format: self.format.as_ptr(),
            name: c"".as_ptr(),
            metadata: ptr::null(),
            flags: NULLABLE,
            n_children: 0,
            children: ptr::null_mut(),
            dictionary: ptr::null_mut(),
            release: Some(release_schema),
            private_data: ptr::null_mut(),
        };
        let offsets = match &self.small {
            Some(small) => small.as_ptr().cast(),
            None => self.column.offsets.as_ptr().cast(),
        };
        // A column without nulls needs no validity bits.
        let validity =
            if self.column.nulls == 0 { ptr::null() } else { self.column.validity.as_ptr().cast() };
        let exported = Box::new(Exported {
            buffers: [validity, offsets, self.column.data.as_ptr().cast()],
            _column: Arc::clone(&self.column),
            _small: self.small.clone(),
        });
        let buffers = exported.buffers.as_ptr();
        let array = ArrowArray {
            length: i64::try_from(self.column.len()).unwrap_or(i64::MAX),
            null_count: i64::try_from(self.column.nulls).unwrap_or(-1),
            offset: 0,
            n_buffers: 3,
            n_children: 0,
            buffers,
            children: ptr::null_mut(),
            dictionary: ptr::null_mut(),
            release: Some(release_array),
            private_data: Box::into_raw(exported).cast(),
        };
        Ok((PyCapsule::new_with_value(py, schema, SCHEMA)?, PyCapsule::new_with_value(py, array, ARRAY)?))
    }
}

/// The elements at an address; none where there is nothing.
///
/// # Safety
/// `address` is null or the beginning of `count` elements that live for `'a` and do not change.
unsafe fn elements<'a, T>(address: *const c_void, count: usize) -> PyResult<&'a [T]> {
    let address = address.cast::<T>();
    if address.is_null() || count == 0 {
        return Ok(&[]);
    }
    if !address.is_aligned() {
        return Err(PyValueError::new_err(
            "the column's offsets are not aligned in memory; copy the column first",
        ));
    }
    // SAFETY: the caller's promise, and the address was checked.
    Ok(unsafe { slice::from_raw_parts(address, count) })
}

/// Reads an array without copying.
///
/// # Safety
/// `schema` and `array` follow the Arrow C data interface and live for `'a`.
unsafe fn borrowed<'a>(
    schema: &'a ArrowSchema,
    array: &'a ArrowArray,
) -> PyResult<(BorrowedColumn<'a>, &'static CStr)> {
    let broken =
        || PyValueError::new_err("the column was released, or is not an array of the Arrow C data interface");
    if schema.release.is_none() || array.release.is_none() || schema.format.is_null() {
        return Err(broken());
    }
    // SAFETY: the format is a text that ends in zero.
    let given = unsafe { CStr::from_ptr(schema.format) };
    let formats = [(c"u", true), (c"z", true), (c"U", false), (c"Z", false)];
    let Some((format, small)) = formats.into_iter().find(|(format, _)| *format == given) else {
        return Err(PyTypeError::new_err(format!(
            "the column must be of type string, large_string, binary or large_binary, not \"{}\"; cast it first",
            given.to_string_lossy()
        )));
    };
    let rows = usize::try_from(array.length).map_err(|_| broken())?;
    let first = usize::try_from(array.offset).map_err(|_| broken())?;
    if array.n_buffers != 3 || array.buffers.is_null() || !schema.dictionary.is_null() {
        return Err(broken());
    }
    let end = first.checked_add(rows).ok_or_else(broken)?;
    let bounds = if rows == 0 { 0 } else { end + 1 };
    // SAFETY: an array of this format has three buffers, of these sizes; they live as long as it does.
    let (validity, offsets, data) = unsafe {
        let buffers: &[*const c_void] = slice::from_raw_parts(array.buffers, 3);
        let [validity, offsets, data] = *buffers else { return Err(broken()) };
        let bits = if validity.is_null() { None } else { Some(elements::<u8>(validity, end.div_ceil(8))?) };
        let (offsets, length) = if small {
            let offsets = elements::<i32>(offsets, bounds)?;
            (Offsets::Small(offsets), offsets.last().map_or(0, |last| i64::from(*last)))
        } else {
            let offsets = elements::<i64>(offsets, bounds)?;
            (Offsets::Large(offsets), offsets.last().copied().unwrap_or_default())
        };
        (bits, offsets, elements::<u8>(data, usize::try_from(length).map_err(|_| broken())?)?)
    };
    Ok((BorrowedColumn { rows, first, validity, offsets, data }, format))
}

/// A structure of the Arrow C data interface, which its owner releases.
trait Released: Sized {
    /// Marks the structure as moved away, so that nobody releases it here.
    fn forget_release(&mut self);
}

impl Released for ArrowSchema {
    fn forget_release(&mut self) {
        self.release = None;
    }
}

impl Released for ArrowArray {
    fn forget_release(&mut self) {
        self.release = None;
    }
}

/// Moves the structure out of a capsule of this name. The capsule then holds a released structure.
///
/// Another consumer that gets the capsule, for example in a callback during the conversion, can thus neither take nor
/// release what is being read.
fn take<T: Released>(capsule: &Bound<'_, PyAny>, name: &CStr) -> PyResult<T> {
    let capsule = capsule.cast::<PyCapsule>().map_err(|_| {
        PyTypeError::new_err("schema and array must be the capsules that __arrow_c_array__() returns")
    })?;
    let pointer: NonNull<T> = capsule.pointer_checked(Some(name))?.cast();
    // SAFETY: the name says what the capsule holds. The GIL is held, so that no other consumer moves the structure now;
    // a structure is moved by copying it and marking the origin as released.
    unsafe {
        let structure = ptr::read(pointer.as_ptr());
        (*pointer.as_ptr()).forget_release();
        Ok(structure)
    }
}

/// Convert an Arrow array of texts, passed as capsules of the Arrow C data interface, which it takes over.
#[pyfunction]
#[pyo3(signature = (schema, array, *, from_, to, jobs, on_error, profile, first_row))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
pub(super) fn _convert_column<'py>(
    py: Python<'py>,
    schema: &Bound<'py, PyAny>,
    array: &Bound<'py, PyAny>,
    from_: Option<&str>,
    to: &str,
    jobs: Option<usize>,
    on_error: &Bound<'py, PyAny>,
    profile: &str,
    first_row: u64,
) -> PyResult<(ArrowColumn, Bound<'py, PyAny>)> {
    // Owned before code of the application can run.
    let (schema, array) = (take::<ArrowSchema>(schema, SCHEMA)?, take::<ArrowArray>(array, ARRAY)?);
    let mut options = Arguments { from_, to: Some(to), jobs, profile }.options()?;
    options.first_row = first_row;
    let mut callbacks = Callbacks::new(on_error, None)?;
    // SAFETY: both are owned by this function and are released at its end.
    let (column, format) = unsafe { borrowed(&schema, &array)? };
    let (written, report) = released(py, || values(&column, &options, &mut callbacks))?;
    let small = match format.to_bytes() {
        b"u" | b"z" => Some(Arc::new(written.small_offsets().ok_or_else(|| {
            PyValueError::new_err("the result has more than 2 GiB; cast the column to large_string first")
        })?)),
        _ => None,
    };
    Ok((ArrowColumn { column: Arc::new(written), small, format }, report.to_python(py)?))
}
