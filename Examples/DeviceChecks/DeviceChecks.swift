// Checks that need a device of Apple, on one screen: passed, or the error. Add this file and the package to an app target
// with the capabilities App Groups and Keychain Sharing, and enter the group below; Scripts/check-apple.py type-checks it.

import ForgeStorage
import Foundation
import Observation
import SwiftUI

/// The app group of the target.
let group = "group.com.example.devicechecks"

struct CheckFailure: Error {
    let text: String

    init(_ text: String) { self.text = text }
}

func require(_ condition: Bool, _ text: String) throws {
    if !condition { throw CheckFailure(text) }
}

/// A check, and what came of it.
struct DeviceCheck: Identifiable {
    let id: String
    let run: @Sendable () async throws -> Void

    /// The checks that run at the launch of the app.
    static let atLaunch = [
        DeviceCheck(id: "settings keep a value") {
            let store = try FileKVStore(at: home().appending(path: "Settings"))
            try store.set(KVKey<Int>("launches"), value: (store.get(KVKey("launches")) ?? 0) + 1)
            try store.synchronize()
            try store.close()
        },
        DeviceCheck(id: "a shared store in the group holds no lock between calls") {
            let directory = try shared().appending(path: "Settings")
            let store = try FileKVStore(at: directory, options: FileKVStore.Options(sharing: .shared))
            try store.set(KVKey<String>("a"), value: "b")
            for name in ["#lock", "."] {
                let descriptor = open(directory.appending(path: name).path(percentEncoded: false), O_RDONLY)
                defer { close(descriptor) }
                try require(flock(descriptor, LOCK_EX | LOCK_NB) == 0, "\(name) is locked")
            }
            try store.close()
        },
        DeviceCheck(id: "a durable save, and a save that must not replace") {
            let store = DiskFileStore(root: try home().appending(path: "Files"))
            try await store.save(Data("a".utf8), to: "folder/file")
            try require(try await store.load("folder/file") == Data("a".utf8), "another content")
            do {
                try await store.save(Data("b".utf8), to: "folder/file", overwrite: false)
                throw CheckFailure("the file was replaced")
            } catch let error as FileStoreError where error.code == .alreadyExists {}
        },
        DeviceCheck(id: "changes of files are reported") {
            let store = DiskFileStore(root: try home().appending(path: "Watched"))
            var changes = store.changes().makeAsyncIterator()
            try await store.save(Data(), to: "a")
            _ = try await changes.next()
        },
        DeviceCheck(id: "a secret in the Keychain, in each class") {
            let store = KeychainCrypt(service: "devicechecks")
            for accessibility in CryptAccessibility.allCases {
                let key = CryptKey<String>(key: "secret-\(accessibility)", accessibility: accessibility)
                try store.set("old", for: key)
                try store.set("new", for: key)
                try require(try store.get(key) == "new", "\(accessibility) has another value")
            }
        },
        DeviceCheck(id: "user defaults keep a value") {
            let store = UserDefaultsKVStore(suiteName: group)
            try store.set(KVKey<Int>("number"), value: 7)
            try require(try store.read(KVKey<Int>("number")) == 7, "another value")
        },
        DeviceCheck(id: "a class of protection is set on the root") {
            let root = try home().appending(path: "Protected")
            try await DiskFileStore(root: root, fileProtection: .complete).save(Data("a".utf8), to: "a")
            let attributes = try FileManager.default.attributesOfItem(atPath: root.appending(path: "a").path)
            let protection = attributes[.protectionKey] as? FileProtectionType
            try require(protection?.rawValue == FileProtectionType.complete.rawValue, "\(attributes)")
        },
        DeviceCheck(id: "a store that is excluded from backups has an excluded root") {
            var root = try home().appending(path: "Excluded")
            let options = FileStoreOptions(isExcludedFromBackup: true)
            try await DiskFileStore(root: root, options: options).save(Data("a".utf8), to: "a")
            root.removeAllCachedResourceValues()
            let isExcluded = try root.resourceValues(forKeys: [.isExcludedFromBackupKey]).isExcludedFromBackup
            try require(isExcluded == true, "the system says \(String(describing: isExcluded))")
        },
    ]

    /// The checks that run ten seconds after the button was tapped, while the device should be locked.
    static let whileLocked = [
        DeviceCheck(id: "locked: settings can be read and written") {
            let store = try FileKVStore(at: home().appending(path: "Settings"))
            try store.set(KVKey<Int>("whileLocked"), value: 1)
            try store.close()
        },
        DeviceCheck(id: "locked: a file of the class complete is reported as locked") {
            let store = DiskFileStore(root: try home().appending(path: "Protected"))
            do {
                _ = try await store.load("a")
                throw CheckFailure("the file was read: is the device locked, with a passcode?")
            } catch let error as FileStoreError where error.code == .unavailable(.locked) {}
        },
        DeviceCheck(id: "locked: a secret for an unlocked device is reported as locked") {
            let store = KeychainCrypt(service: "devicechecks")
            do {
                _ = try store.get(CryptKey<String>(key: "secret-whenUnlocked"))
                throw CheckFailure("the secret was read: is the device locked, with a passcode?")
            } catch let error as CryptError where error.code == .unavailable(.locked) {}
        },
    ]

    private static func home() throws -> URL {
        try FileManager.default.url(
            for: .applicationSupportDirectory, in: .userDomainMask, appropriateFor: nil, create: true)
    }

    private static func shared() throws -> URL {
        guard let url = FileManager.default.containerURL(forSecurityApplicationGroupIdentifier: group) else {
            throw CheckFailure("the target has no app group \(group)")
        }
        return url
    }
}

@MainActor @Observable
final class Results {
    private(set) var lines: [String] = []

    func run(_ checks: [DeviceCheck]) async {
        for check in checks {
            do {
                try await check.run()
                lines.append("passed: \(check.id)")
            } catch {
                lines.append("FAILED: \(check.id): \(error)")
            }
        }
    }

    func runWhileLocked() async {
        do { try await Task.sleep(for: .seconds(10)) } catch { return }
        await run(DeviceCheck.whileLocked)
    }
}

@main
struct DeviceChecksApp: App {
    var body: some Scene {
        WindowGroup { ResultsView() }
    }
}

struct ResultsView: View {
    @State private var results = Results()

    var body: some View {
        Form {
            ForEach(results.lines, id: \.self) { line in Text(line) }
            Button("After a lock") { Task { await results.runWhileLocked() } }
        }
        .task { await results.run(DeviceCheck.atLaunch) }
    }
}
