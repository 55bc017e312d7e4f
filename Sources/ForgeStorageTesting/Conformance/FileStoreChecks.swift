public import ForgeFileStore

extension ConformanceChecks {
    /// What every file store promises.
    ///
    /// The checks that copy and move files in create their sources in the temporary directory of this machine and remove
    /// them again.
    public static let fileStore: [ConformanceCheck<any FileStoring>] =
        fileSaving + fileLooking + fileListing + fileDeleting + fileKeys + fileValues + fileSources + fileConcurrency
}

/// A check of a file store.
typealias FileStoreCheck = ConformanceCheck<any FileStoring>

/// Throws a violation unless `body` throws a ``FileStoreError`` with this code, which is returned.
@discardableResult
func expectCode<Result>(
    _ code: FileStoreError.Code, _ what: String, _ body: () async throws -> Result
) async throws -> FileStoreError {
    let error = try await expectError(FileStoreError.self, what, body)
    try expectEqual(error.code, code, what)
    return error
}
