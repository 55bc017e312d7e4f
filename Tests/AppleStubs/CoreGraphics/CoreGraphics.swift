// The symbols of Core Graphics that the Apple-only files of ForgeStorage use. Nothing here is ever run.

public final class CGImage {}
