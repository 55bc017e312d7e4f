import ForgeFileSystem

/// What user defaults of a platform lose without reporting an error, and how to detect it.
struct UserDefaultsPlatform: Sendable {
    /// The size of a suite from which on the system keeps none of its changes; nil if there is no such limit.
    var suiteLimit: Int?

    /// The marker of a suite, given its name; nil if suites are always readable.
    var marker: (@Sendable (_ suite: String) -> any UserDefaultsMarker)?
}

/// A file beside a suite's values, which can be read only while the device is unlocked.
///
/// Before the first unlock after a start of the device, user defaults are unreadable and appear to be empty. A store
/// therefore writes a sentinel into the suite and creates this file. A suite without the sentinel, whose marker exists
/// and is unreadable, has values that cannot be read yet.
protocol UserDefaultsMarker: Sendable {
    var state: UserDefaultsMarkerState { get }

    /// Creates the file if it is absent. It is created by a later write if that is not possible now.
    func create()
}

enum UserDefaultsMarkerState: Sendable {
    case absent, readable, locked
}

/// A marker on a file system, at a path of the app's own.
struct UserDefaultsMarkerFile: UserDefaultsMarker {
    let path: POSIXPath
    let fileSystem: any POSIXFileSystem

    /// Creates the file, readable only while the device is unlocked.
    let creating: @Sendable (POSIXPath) throws -> Void

    var state: UserDefaultsMarkerState {
        do throws(FileSystemError) {
            _ = try fileSystem.readFile(path, maximumSizeInBytes: 4096)
            return .readable
        } catch {
            return error.isLocked ? .locked : .absent
        }
    }

    func create() {
        guard case .absent = state else { return }
        // While the device is locked, or has no space, a file of this class cannot be created.
        do { try creating(path) } catch {}
    }
}
