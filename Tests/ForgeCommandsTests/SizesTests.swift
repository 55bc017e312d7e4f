import Testing

@testable import ForgeCommands

struct SizesTests {
    @Test(
        "a size is shown in the unit that suits it",
        arguments: [
            (0, "0 B"), (512, "512 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (10_240, "10 KiB"),
            (5 << 20, "5.0 MiB"), (3 << 30, "3.0 GiB"), (2 << 40, "2.0 TiB"), (5000 << 40, "5000 TiB"),
        ])
    func showsSize(bytes: Int, text: String) {
        #expect(readableSize(bytes) == text)
    }
}
