import ForgeCrashTesting
import ForgeStorage
import ForgeStorageTesting
import Foundation
import SystemPackage

extension ConformanceRuns {
    /// Runs of every file system: the common list, and the lists that need a special configuration.
    var fileSystems: [Run] { [onDisk, inMemory] + configured }

    private var onDisk: Run {
        let place = place
        return {
            let suite = ConformanceSuite<FileSystemUnderTest>.fileSystem
            let other: POSIXPath = "/dev/shm"
            let hasOther = SystemFileSystem().fileExists(atPath: String(other))
            return await suite.run(on: "SystemFileSystem", having: hasOther ? [.secondDevice] : []) {
                var subject = FileSystemUnderTest(SystemFileSystem(), root: try place.nextDirectory())
                #if canImport(Darwin)
                subject.profile = .darwin
                subject.isCaseInsensitive = true
                subject.isNormalisationInsensitive = true
                #endif
                subject.umask = try place.umask()
                if hasOther { subject.otherDevice = other }
                return subject
            }
        }
    }

    private var inMemory: Run {
        {
            let suite = ConformanceSuite<FileSystemUnderTest>.fileSystem
            let capabilities: Set<ConformanceCapability> = [
                .secondDevice, .readOnlyDevice, .otherUsers, .linkLimit, .extendedAttributes,
            ]
            return await suite.run(on: "InMemoryFileSystem", having: capabilities) {
                let fileSystem = InMemoryFileSystem()
                try fileSystem.createDirectory("/other")
                try fileSystem.mount(at: "/other")
                var subject = try subject(fileSystem)
                subject.otherDevice = "/other"
                subject.makeReadOnly = { try fileSystem.setReadOnly(true) }
                subject.asUser = { user, group in fileSystem.process(user: user, group: group) }
                return subject
            }
        }
    }

    /// Runs on file systems with a special configuration.
    private var configured: [Run] {
        func run(
            _ name: String, _ checks: [ConformanceCheck<FileSystemUnderTest>], _ options: InMemoryFileSystem.Options
        ) -> Run {
            {
                await ConformanceSuite("file system", checks).run(on: "InMemoryFileSystem, \(name)") {
                    try subject(InMemoryFileSystem(options: options), options)
                }
            }
        }
        return [
            run("as on a Mac", ConformanceChecks.fileSystem, .darwin),
            run(
                "small device", ConformanceChecks.fileSystemQuota,
                .init(quota: .init(sizeInBytes: 100_000, inodeCount: 64))),
            run("ten descriptors", ConformanceChecks.fileSystemDescriptors, .init(maximumOpenFileCount: 10)),
            run("any case", ConformanceChecks.fileSystemCaseInsensitive, .init(isCaseInsensitive: true)),
            run(
                "any normalisation", ConformanceChecks.fileSystemNormalisationInsensitive,
                .init(isNormalisationInsensitive: true)),
            {
                await ConformanceSuite("file system", ConformanceChecks.fileSystem).run(on: "SimulatedDevice") {
                    let device = try SimulatedDevice()
                    var subject = FileSystemUnderTest(device.fileSystem, root: device.path(of: .documents))
                    subject.profile = .darwin
                    subject.isNormalisationInsensitive = true
                    return subject
                }
            },
        ]
    }
}

private func subject(
    _ fileSystem: InMemoryFileSystem, _ options: InMemoryFileSystem.Options = .init()
) throws -> FileSystemUnderTest {
    try fileSystem.createDirectory("/root", permissions: FilePermissions(rawValue: 0o755))
    var subject = FileSystemUnderTest(fileSystem, root: "/root")
    subject.profile = options.profile
    subject.isCaseInsensitive = options.isCaseInsensitive
    subject.isNormalisationInsensitive = options.isNormalisationInsensitive
    return subject
}
