//! Opening adapters, and errors that do not end the process.

use gleed_gpu::linear::half_units;
use gleed_gpu::{Error, Gpu, Limits, Selection, adapters};

#[test]
fn adapters_describe_themselves() {
    let gpu = crate::common::gpu();
    let all = adapters();
    assert!(all.iter().enumerate().all(|(index, adapter)| adapter.index == index));
    let listed = &all[gpu.info.index];
    let places = "its lanes have the elements of a product elsewhere, so its matrices of bytes are not used";
    assert_eq!(half_units(listed), half_units(&gpu.info), "{places}");
    let same = all.iter().find(|a| **a == gpu.info).expect("the open adapter is listed");
    assert!(!same.name.is_empty() && same.largest_binding <= same.largest_buffer, "{same:?}");
    assert_eq!(Gpu::open(Selection::Named(&same.index.to_string())).unwrap().info, gpu.info);
}

#[test]
fn an_unknown_name_is_refused_with_what_there_is() {
    let gpu = crate::common::gpu();
    let error = Gpu::open(Selection::Named("no such adapter")).unwrap_err();
    assert!(matches!(&error, Error::UnknownAdapter { available, .. } if available.contains(&gpu.info.name)));
}

#[test]
fn errors_are_given_out() {
    let gpu = crate::common::own_gpu();
    let descriptor = |size| wgpu::BufferDescriptor {
        label: None,
        size,
        usage: wgpu::BufferUsages::STORAGE,
        mapped_at_creation: false,
    };
    gpu.scoped("a buffer", || gpu.device.create_buffer(&descriptor(64))).unwrap();
    let too_large = descriptor(gpu.device.limits().max_buffer_size + 4);
    let error = gpu.scoped("a buffer", || gpu.device.create_buffer(&too_large)).unwrap_err();
    assert!(matches!(error, Error::Device { what, .. } if what == "a buffer"));
    gpu.check().unwrap();
    // Without a scope the error waits for the next call.
    let _ = gpu.device.create_buffer(&too_large);
    assert!(matches!(gpu.check(), Err(Error::Device { .. })));
}

#[test]
fn limits_are_those_of_a_computer() {
    let limits = Limits::measure(&crate::common::gpu()).unwrap();
    assert!(limits.memory > 1e8 && limits.memory < 1e14, "{limits:?}");
    assert!(limits.f32 > 1e8 && limits.f32 < 1e16, "{limits:?}");
    assert!(limits.int8 > 1e8 && limits.int8 < 1e17, "{limits:?}");
    assert_eq!(limits.f16_units.is_some(), half_units(&crate::common::gpu().info));
    assert!(limits.f16_units.is_none_or(|units| units > 1e8 && units < 1e17), "{limits:?}");
}
