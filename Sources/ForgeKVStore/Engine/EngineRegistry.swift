import Dispatch
import ForgeFileSystem
import Synchronization
import SystemPackage

/// The stores that are open in this process: who opens one that is open already gets the same engine.
///
/// This is the package's one piece of global state, and it has to be: a lock of a file belongs to an open file, so two
/// engines on one log could not both have it.
enum EngineRegistry {
    private static let engines = Mutex<[Identity: Registered]>([:])

    /// A directory, and the file system that the numbers are of.
    private struct Identity: Hashable {
        var fileSystem: ObjectIdentifier
        var device: UInt64
        var inode: UInt64
    }

    private struct Registered {
        weak var use: EngineUse?
        var lifetime: EngineLifetime
    }

    /// Opens the store in a directory, which is created durably if it is missing.
    static func open(
        _ path: POSIXPath, options: FileKVStore.Options, on fileSystem: any POSIXFileSystem
    ) throws(KVStoreError) -> EngineUse {
        let directory: Descriptor
        let status: FileStatus
        do throws(FileSystemError) {
            try fileSystem.makeDirectories(path, permissions: .privateDirectory)
            directory = try fileSystem.open(path, .readOnly, options: [.directory], permissions: [])
            do throws(FileSystemError) {
                status = try fileSystem.status(of: .descriptor(directory))
            } catch {
                do { try fileSystem.close(directory) } catch _ {}
                throw error
            }
        } catch {
            throw KVStoreError(error, .open, store: String(path))
        }
        guard let number = identity(of: fileSystem) else {
            let place = try StorePlace(
                directory, path: path, on: fileSystem, options: options, lifetime: EngineLifetime())
            return EngineUse(of: try KVEngine(place, options: options))
        }
        let identity = Identity(fileSystem: number, device: status.device, inode: status.inode)
        while true {
            let found = try engines.withLock { (engines) throws(KVStoreError) -> Found in
                if let registered = engines[identity] {
                    if let use = registered.use { return .open(use) }
                    if !registered.lifetime.isOver { return .closing(registered.lifetime) }
                }
                return .opened(try add(identity, directory, path, options, fileSystem, to: &engines))
            }
            switch found {
            case .opened(let use): return use
            case .open(let use):
                do { try fileSystem.close(directory) } catch _ {}
                guard use.engine.options.sharing == options.sharing else {
                    throw KVStoreError(
                        .unavailable(.inUse(processID: options.processes.own.id)), .open, store: String(path))
                }
                return use
            // Another thread is flushing it. Other stores can be opened meanwhile, by who is told of an issue there.
            case .closing(let lifetime): lifetime.wait()
            }
        }
    }

    /// What there is of a store that somebody wants to open.
    private enum Found {
        case opened(EngineUse)
        case open(EngineUse)
        case closing(EngineLifetime)
    }

    private static func add(
        _ identity: Identity, _ directory: Descriptor, _ path: POSIXPath, _ options: FileKVStore.Options,
        _ fileSystem: any POSIXFileSystem, to engines: inout [Identity: Registered]
    ) throws(KVStoreError) -> EngineUse {
        // The lifetimes are asked and not the uses: who looks at somebody else's holds it meanwhile, and if that is when
        // it ends, the last flush happens here instead of there.
        engines = engines.filter { !$0.value.lifetime.isOver }
        let lifetime = EngineLifetime()
        let place = try StorePlace(directory, path: path, on: fileSystem, options: options, lifetime: lifetime)
        let use = EngineUse(of: try KVEngine(place, options: options))
        engines[identity] = Registered(use: use, lifetime: lifetime)
        return use
    }

    /// What tells one file system from another; nil for a value of a type that may stand for several.
    private static func identity(of fileSystem: any POSIXFileSystem) -> ObjectIdentifier? {
        if fileSystem is SystemFileSystem { return ObjectIdentifier(SystemFileSystem.self) }
        guard type(of: fileSystem) is AnyObject.Type else { return nil }
        return ObjectIdentifier(fileSystem as AnyObject)
    }
}

/// What all objects of the app that lead to one engine have in common: when the last of them goes, the store is closed.
///
/// The engine itself is never referred to weakly, which would make every use of it slower.
final class EngineUse: Sendable {
    let engine: KVEngine

    init(of engine: KVEngine) {
        self.engine = engine
    }

    deinit {
        engine.close()
    }
}

/// When an engine has let go of its store.
final class EngineLifetime: Sendable {
    private let ended = DispatchSemaphore(value: 0)

    /// Called once, when lock and directory are given back.
    func end() { ended.signal() }

    var isOver: Bool {
        guard ended.wait(timeout: .now()) == .success else { return false }
        ended.signal()
        return true
    }

    func wait() {
        ended.wait()
        ended.signal()
    }
}
