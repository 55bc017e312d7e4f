import ForgeStorage
import Foundation
import Synchronization

/// User defaults suites created for one run and removed with it.
final class DefaultsSuites: Sendable {
    private let names = Mutex<[String]>([])

    /// The name of a new suite.
    func next() -> String {
        let name = "forge-lab.\(UUID().uuidString)"
        names.withLock { $0.append(name) }
        return name
    }

    /// Empties all suites, and removes their files where each suite has one.
    func remove() {
        for name in names.withLock({ $0 }) {
            do {
                try UserDefaultsKVStore(suiteName: name).removeAll()
                #if os(Linux)
                let home = FileManager.default.homeDirectoryForCurrentUser
                let file = home.appending(path: ".config/\(name).plist")
                guard FileManager.default.fileExists(atPath: file.path) else { continue }
                try FileManager.default.removeItem(at: file)
                #endif
            } catch {
                FileHandle.standardError.write(Data("cannot remove the suite \(name): \(error)\n".utf8))
            }
        }
    }
}
