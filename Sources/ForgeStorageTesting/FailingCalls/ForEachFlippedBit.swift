public import ForgeFileSystem

/// What a loop over flipped bits has seen.
public struct FlippedBitReport: Hashable, Sendable {
    /// How many bits were flipped, one at a time.
    public internal(set) var bitCount = 0

    /// How many of them the body read.
    public internal(set) var readCount = 0
}

/// Runs `body` once for each bit of a file, with that bit flipped in every read.
///
/// - Parameters:
///   - path: The file.
///   - step: Flips every so many bits; 1 flips each of them.
///   - makeFileSystem: Makes a file system with the file on it.
///   - body: Reads the file through what it is given and throws if it gets a wrong value out of it.
/// - Returns: What was tried.
/// - Throws: ``ConformanceViolation`` with the bit that was flipped and what `body` threw,
///   ``NothingFailed`` if the body read nothing of the file.
@discardableResult
public func forEachFlippedBit(
    of path: POSIXPath, every step: Int = 1, on makeFileSystem: () throws -> any POSIXFileSystem,
    _ body: (FaultingFileSystem) throws -> Void
) throws -> FlippedBitReport {
    var report = FlippedBitReport()
    let sizeInBytes = try makeFileSystem().status(path).sizeInBytes
    for number in stride(from: 0, to: 8 * sizeInBytes, by: step) {
        let base = try makeFileSystem()
        let corruption = FileCorruption.flippedBit(offset: number / 8, bit: Int(number % 8))
        let rule = FaultRule([.read], matching: .inode(try base.status(path).inode), do: .corrupt(corruption))
        let plan = FaultPlan([rule])
        do {
            try body(FaultingFileSystem(base, plan: plan))
        } catch {
            throw ConformanceViolation("\(path) with \(corruption): \(error)")
        }
        report.bitCount += 1
        report.readCount += plan.firedCount > 0 ? 1 : 0
    }
    guard report.readCount > 0 else { throw NothingFailed(description: "nothing of \(path) was read") }
    return report
}
