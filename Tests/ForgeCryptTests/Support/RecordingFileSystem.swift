import ForgeFileSystem
import ForgeStorageTesting
import Synchronization
import SystemPackage

/// Wraps a file system with a hook before every call, which may throw, and a record of all written bytes.
final class RecordingFileSystem: InterceptingFileSystem {
    typealias Hook = @Sendable (FileSystemOperation, POSIXPath?) throws(FileSystemError) -> Void

    let forwarded: any POSIXFileSystem
    private let hook = Mutex<Hook?>(nil)
    private let writes = Mutex<[[UInt8]]>([])

    init(_ base: any POSIXFileSystem = InMemoryFileSystem()) {
        forwarded = base
    }

    func onCall(_ hook: Hook?) {
        self.hook.withLock { $0 = hook }
    }

    /// Makes the call of an operation with this number, counted from now on, fail.
    func fail(_ operation: FileSystemOperation, _ errno: Errno, number: Int = 1) {
        let count = Counter()
        onCall { (called, path) throws(FileSystemError) in
            if called == operation, count.next() == number { throw FileSystemError(operation, errno, path: path) }
        }
    }

    /// All bytes written so far, by call.
    var written: [[UInt8]] { writes.withLock { $0 } }

    func intercept(_ call: InterceptedCall) throws(FileSystemError) {
        try hook.withLock { $0 }?(call.operation, call.path)
    }

    func write(
        _ descriptor: Descriptor, from buffer: UnsafeRawBufferPointer, at offset: Int64?
    ) throws(FileSystemError) -> Int {
        try intercept(InterceptedCall(operation: .write, descriptor: descriptor))
        writes.withLock { $0.append([UInt8](buffer)) }
        return try forwarded.write(descriptor, from: buffer, at: offset)
    }

    func map(_ descriptor: Descriptor, at offset: Int64, count: Int) throws(FileSystemError) -> FileMapping {
        try intercept(InterceptedCall(operation: .map, descriptor: descriptor))
        return FileMapping(
            watching: try forwarded.map(descriptor, at: offset, count: count),
            store: { [self] mapping, bytes, place in
                writes.withLock { $0.append([UInt8](bytes)) }
                mapping.store(bytes, at: place)
            },
            writeBack: { [self] (mapping) throws(FileSystemError) in
                try intercept(InterceptedCall(operation: .writeBack, descriptor: descriptor))
                try mapping.writeBack()
            })
    }
}

/// Counts from 1; thread-safe.
final class Counter: Sendable {
    private let value = Mutex(0)

    func next() -> Int {
        value.withLock { value in
            value += 1
            return value
        }
    }
}
