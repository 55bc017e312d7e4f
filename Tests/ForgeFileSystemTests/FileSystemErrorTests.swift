import ForgeFileSystem
import SystemPackage
import Testing

struct FileSystemErrorTests {
    @Test("an error description contains operation, path and reason in one line")
    func describesItself() {
        let error = FileSystemError(.rename, .improperLink, path: "a", destination: "b")
        #expect(error.description.hasPrefix("rename a to b: "))
        #expect(error.description.hasSuffix("(EXDEV)"))
        #expect(!error.description.contains("\n"))
    }

    @Test("an error number without a symbol is described by its number")
    func namesUnknownNumbers() {
        #expect(Errno(rawValue: 9999).name == "errno 9999")
        #expect(Errno.noSpace.name == "ENOSPC")
    }
}
