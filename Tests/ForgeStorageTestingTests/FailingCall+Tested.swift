import ForgeStorageTesting
import SystemPackage
import TestDepth

extension FailingCall {
    /// The error numbers of a run: one by default, all in a deep run.
    static let testedErrnos: [Errno] = TestDepth.isDeep ? errnos : [.ioError]
}
