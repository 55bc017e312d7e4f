package import ForgeFileSystem
import SystemPackage

extension FileStoreError {
    /// Converts the error of a failed file system operation.
    package init(_ error: FileSystemError, _ operation: Operation, key: String) {
        self.init(Code(error, operation), operation, key: key, underlying: error)
    }

    /// Converts the error of opening the root: nothing is known about any key.
    init(opening error: FileSystemError, _ operation: Operation, key: String) {
        let code: Code =
            switch error.errno {
            case _ where error.isLocked: .unavailable(.locked)
            case .permissionDenied, .notPermitted, .readOnlyFileSystem: .notPermitted
            case .noSpace, .diskQuotaExceeded: .noSpace
            case .resourceBusy: .unsafe(.anotherStore)
            default: .unavailable(.inputOutput)
            }
        self.init(code, operation, key: key, underlying: error)
    }
}

extension FileStoreError.Code {
    init(_ error: FileSystemError, _ operation: FileStoreError.Operation) {
        guard !error.isEffectVisible else {
            self = .durabilityUnknown
            return
        }
        guard !error.isLocked else {
            self = .unavailable(.locked)
            return
        }
        self = Self.special(error, operation) ?? Self.codes[error.errno] ?? .unavailable(.inputOutput)
    }

    private static let codes: [Errno: FileStoreError.Code] = [
        .noSuchFileOrDirectory: .notFound,
        .fileExists: .alreadyExists,
        .isDirectory: .isDirectory,
        .notDirectory: .notDirectory,
        .noSpace: .noSpace,
        .diskQuotaExceeded: .noSpace,
        .permissionDenied: .notPermitted,
        .notPermitted: .notPermitted,
        .readOnlyFileSystem: .notPermitted,
        .fileTooLarge: .tooLarge,
        .argListTooLong: .tooLarge,
        .tooManySymbolicLinkLevels: .unsafe(.symbolicLink),
        .noSuchAddressOrDevice: .unsafe(.notRegular),
        .operationNotSupportedByDevice: .unsafe(.notRegular),
        .fileNameTooLong: .invalidKey(.componentTooLong),
    ]

    /// Error numbers that have a special meaning in one operation.
    private static func special(
        _ error: FileSystemError, _ operation: FileStoreError.Operation
    ) -> FileStoreError.Code? {
        switch (error.operation, error.errno, operation) {
        case (.watch, .noSpace, _), (.watch, .tooManyOpenFiles, _), (.watch, .tooManyOpenFilesInSystem, _),
            (.watch, .noMemory, _):
            .watchLimit
        case (.watch, .notSupported, _), (.watch, .noFunction, _): .unsupported
        case (.setExtendedAttribute, .notSupported, _), (.setExtendedAttribute, .noFunction, _): .unsupported
        case (.read, .notSupported, _): .unsafe(.notRegular)
        case (.open, .resourceBusy, _): .unsafe(.anotherStore)
        case (.rename, .canceled, _): .conflict
        case (.write, .badFileDescriptor, .save): .closed
        case (.removeDirectory, .directoryNotEmpty, .deleteDirectory): .foreignContent
        // A file system is mounted there.
        case (.rename, .resourceBusy, .deleteDirectory), (.removeDirectory, .resourceBusy, .deleteDirectory),
            (.rename, .resourceBusy, .deleteAll), (.removeDirectory, .resourceBusy, .deleteAll):
            .foreignContent
        // A directory was required and another file has its name.
        case (_, .fileExists, .createDirectory): .notDirectory
        // Every parent was created, and another program repeatedly removes it.
        case (_, .noSuchFileOrDirectory, .save), (_, .noSuchFileOrDirectory, .createDirectory),
            (_, .noSuchFileOrDirectory, .copy), (_, .noSuchFileOrDirectory, .move):
            .unavailable(.inputOutput)
        default: nil
        }
    }
}
