/// A key-value storage of bytes that can be read and written.
///
/// Depend on `any Storage`; pass a ``DiskStorage`` in the app and an ``InMemoryStorage`` in tests.
public typealias Storage = ReadableStorage & WritableStorage
