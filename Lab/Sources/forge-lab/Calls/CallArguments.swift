import ForgeFileSystem
import SystemPackage

/// The parsed arguments of one call, in order.
struct CallArguments {
    enum Value {
        case text([UInt8])
        /// An invalid pointer.
        case fault
        case number(Int64)
        case descriptor(Descriptor)
    }

    private(set) var values: [Value] = []

    init(_ values: [Value]) { self.values = values }

    var count: Int { values.count }

    func number(_ index: Int) -> Int64 {
        guard case .number(let number) = values[index] else { return 0 }
        return number
    }

    func descriptor(_ index: Int) -> Descriptor {
        guard case .descriptor(let descriptor) = values[index] else { return .workingDirectory }
        return descriptor
    }

    func path(_ index: Int) throws(Errno) -> POSIXPath { POSIXPath(try bytes(index)) }

    func text(_ index: Int) throws(Errno) -> String { String(decoding: try bytes(index), as: UTF8.self) }

    func bytes(_ index: Int) throws(Errno) -> [UInt8] {
        guard case .text(let bytes) = values[index] else { throw .badAddress }
        return bytes
    }

    func permissions(_ index: Int) -> FilePermissions {
        FilePermissions(rawValue: CInterop.Mode(truncatingIfNeeded: number(index) & 0o7777))
    }

    /// A user or group; -1 leaves it unchanged.
    func user(_ index: Int) -> UserID? {
        let number = UInt32(truncatingIfNeeded: number(index))
        return number == .max ? nil : UserID(rawValue: number)
    }

    func group(_ index: Int) -> GroupID? {
        let number = UInt32(truncatingIfNeeded: number(index))
        return number == .max ? nil : GroupID(rawValue: number)
    }
}
