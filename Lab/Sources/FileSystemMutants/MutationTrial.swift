import ForgeFileSystem
import ForgeStorageTesting
import SystemPackage

extension Mutation {
    /// The first violation that the published checks report for this mutant; nil if every check passes.
    ///
    /// Runs every list for file systems, each check on a new file system configured for that list.
    package func firstViolation() async -> String? {
        // The short lists come first, because most mutants fail early.
        let lists = [
            (ConformanceChecks.fileSystemDescriptors, Setting.fewDescriptors),
            (ConformanceChecks.fileSystemPermissions, .users), (ConformanceChecks.fileSystemQuota, .quota),
            (ConformanceChecks.fileSystemReadOnly, .readOnly), (ConformanceChecks.fileSystemDevices, .devices),
            (ConformanceChecks.fileSystemExtendedAttributes, .plain),
            (ConformanceChecks.fileSystem, .plain), (ConformanceChecks.fileSystemLinkLimit, .plain),
        ]
        for (checks, setting) in lists {
            for check in checks {
                do {
                    try await check.run(on: try subject(setting))
                } catch {
                    return "\(error)"
                }
            }
        }
        return nil
    }

    private enum Setting {
        case plain, fewDescriptors, users, quota, readOnly, devices
    }

    private func subject(_ setting: Setting) throws -> FileSystemUnderTest {
        var options = InMemoryFileSystem.Options()
        if setting == .fewDescriptors { options.maximumOpenFileCount = 10 }
        if setting == .quota { options.quota = .init(sizeInBytes: 100_000, inodeCount: 64) }
        let base = InMemoryFileSystem(options: options)
        try base.createDirectory("/root", permissions: FilePermissions(rawValue: 0o755))
        let mutant = MutantFileSystem(base, self)
        var subject = FileSystemUnderTest(mutant, root: "/root")
        subject.asUser = { user, group in mutant.process(user: user, group: group) }
        subject.makeReadOnly = { try base.setReadOnly(true) }
        if setting == .devices {
            try base.createDirectory("/other")
            try base.mount(at: "/other")
            subject.otherDevice = "/other"
        }
        return subject
    }
}
